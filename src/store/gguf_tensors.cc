#include "store/gguf_tensors.h"

#include <algorithm>
#include <array>

#include "base/size.h"
#include "store/gguf_types.h"
#include "store/header.h"
#include "store/layout.h"
#include "store/text_file.h"

namespace sluice::store {
namespace {

constexpr std::uint64_t kMaxNameBytes = 1024;
constexpr std::uint32_t kMaxGgufDimensions = 4;

}  // namespace

bool GgufTensors::read(std::uint64_t number) {
  for (std::uint64_t i = 0; i < number; ++i) {
    if (table_.size() == TensorTable::kMaxTensors) {
      cursor_.fault("more than {} tensors in one model", TensorTable::kMaxTensors);
      return false;
    }
    if (!read_tensor(i)) return false;
  }
  check_extents();
  return true;
}

bool GgufTensors::read_tensor(std::uint64_t index) {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint32_t rank = 0;
  if (!cursor_.take_text(offset, size, kMaxNameBytes, "a tensor's name")) return false;
  const std::string name(cursor_.text(offset, size));
  if (!cursor_.take(rank, "a tensor's dimensions")) return false;
  if (rank == 0 || rank > kMaxGgufDimensions) {
    cursor_.damaged("tensor {}: {} dimensions, expected 1 to {}", shown(name), rank,
                    kMaxGgufDimensions);
    return false;  // how many follow is not certain
  }
  std::array<std::uint64_t, kMaxGgufDimensions> sizes{};
  for (std::uint32_t d = 0; d < rank; ++d) {
    if (!cursor_.take(sizes[d], "a tensor's dimensions")) return false;
  }
  std::uint32_t type = 0;
  std::uint64_t place = 0;
  if (!cursor_.take(type, "a tensor's type")) return false;
  if (!cursor_.take(place, "a tensor's offset")) return false;
  Shape shape;
  shape.rank = static_cast<std::uint8_t>(rank);
  // GGUF has the innermost dimension first.
  for (std::uint32_t d = 0; d < rank; ++d) shape.size[rank - 1 - d] = sizes[d];
  enter(index, name, type, shape, place);
  return true;
}

void GgufTensors::enter(std::uint64_t index, const std::string& name, std::uint32_t type,
                        const Shape& shape, std::uint64_t place) {
  if (name.empty() || !is_utf8(name)) {
    cursor_.damaged("the name of tensor number {} is {}, expected UTF-8", index, shown(name));
    sound_ = false;
    return;
  }
  const auto dtype = dtype_of(name, type);
  const auto bytes = dtype ? bytes_of(name, *dtype, shape) : std::nullopt;
  const bool aligned = place % alignment_ == 0;
  if (!aligned) {
    cursor_.damaged("tensor {}: offset {} is no multiple of the alignment {}", shown(name), place,
                    alignment_);
  }
  const bool sound = aligned && bytes;
  sound_ = sound_ && sound;
  // The start of the data is not known yet: check_extents() adds it.
  const auto added = table_.add(name, dtype.value_or(DType::u8), bytes ? shape : Shape{}, place);
  if (!added.is_new) return is_there_already(name, table_.file_of(added.index));
  places_.push_back({place, bytes.value_or(0), sound});
  indices_.push_back(added.index);
}

void GgufTensors::is_there_already(const std::string& name, std::uint32_t file) {
  sound_ = false;
  if (file + 1 == files_.size()) {
    cursor_.damaged("tensor {} is in the header twice", shown(name));
  } else {
    cursor_.fault("tensor {} is also in {}; remove the file that does not belong to the model",
                  shown(name), files_[file]);
  }
}

std::optional<DType> GgufTensors::dtype_of(std::string_view name, std::uint32_t number) {
  const GgmlType type = ggml_type(number);
  if (type.dtype) return type.dtype;
  if (type.name.empty()) {
    cursor_.damaged("tensor {}: type {} is not known; Sluice reads {}", shown(name), number,
                    kReadableGgmlTypes);
  } else {
    cursor_.fault(
        "tensor {}: type {} is not supported; Sluice reads {}: download the model in one of these",
        shown(name), type.name, kReadableGgmlTypes);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> GgufTensors::bytes_of(std::string_view name, DType dtype,
                                                   const Shape& shape) {
  const std::uint64_t columns = shape.size[shape.rank - 1u];
  if (std::ranges::find(shape.sizes(), 0u) != shape.sizes().end()) {
    cursor_.damaged("tensor {}: shape {}: a dimension of 0", shown(name), to_string(shape));
    return std::nullopt;
  }
  if (columns % elements_of(dtype) != 0) {
    cursor_.damaged("tensor {}: rows of {} elements, but {} has blocks of {}", shown(name), columns,
                    name_of(dtype), elements_of(dtype));
    return std::nullopt;
  }
  const auto bytes = tensor_bytes(dtype, shape);
  if (!bytes) {
    cursor_.damaged("tensor {}: shape {}: the size in bytes exceeds 64 bits", shown(name),
                    to_string(shape));
  }
  return bytes;
}

/// Where the data begins is known now: moves the tensors there and looks for overlaps and holes.
void GgufTensors::check_extents() {
  const std::uint64_t start = round_up(cursor_.at(), alignment_);
  if (start > cursor_.file_bytes()) {
    if (places_.empty()) return;
    return cursor_.damaged("the file ends at byte {}, before its data", cursor_.file_bytes());
  }
  const DataPart data{start, cursor_.file_bytes()};
  std::vector<Span> spans;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    if (!place.sound) continue;
    std::uint64_t end = 0;
    if (__builtin_add_overflow(place.offset, place.bytes, &end)) {
      cursor_.damaged("tensor {}: offset {}: the end exceeds 64 bits",
                      shown(table_.name(indices_[i])), place.offset);
      sound_ = false;
      continue;
    }
    // What fills the room to the next multiple of the alignment belongs to the tensor before.
    const std::uint64_t filled = end + (alignment_ - end % alignment_) % alignment_;
    if (end <= data.bytes()) end = std::clamp(filled, end, data.bytes());
    spans.push_back({place.offset, end, indices_[i]});
    table_.move(indices_[i], start);
  }
  check_layout(
      spans, data, sound_, cursor_.file(),
      [this](std::uint32_t tensor) { return table_.name(tensor); }, cursor_.faults());
}

}  // namespace sluice::store
