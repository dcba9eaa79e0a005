#include "store/gguf.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/size.h"
#include "io/file.h"
#include "store/header.h"
#include "store/text_file.h"

namespace sluice::store {
namespace {

constexpr std::uint32_t kOldestVersion = 2;
constexpr std::uint32_t kNewestVersion = 3;
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kMaxAlignment = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxKeyBytes = 65535;
constexpr std::uint64_t kMaxNameBytes = 1024;
constexpr std::uint32_t kMaxGgufDimensions = 4;
constexpr int kMaxArrayDepth = 4;
constexpr std::uint64_t kFirstRead = std::uint64_t{256} << 10;

// The fewest bytes that one entry takes: lengths, types and a value of one byte.
constexpr std::uint64_t kLeastValueBytes = 8 + 1 + 4 + 1;
constexpr std::uint64_t kLeastTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

struct GgmlType {
  std::string_view name;
  std::optional<DType> dtype;
};

/// A tensor type by its number in the file.
GgmlType ggml_type(std::uint32_t number) {
  switch (number) {
    case 0:
      return {"F32", DType::f32};
    case 1:
      return {"F16", DType::f16};
    case 2:
      return {"Q4_0", DType::q4_0};
    case 3:
      return {"Q4_1", DType::q4_1};
    case 6:
      return {"Q5_0", DType::q5_0};
    case 7:
      return {"Q5_1", DType::q5_1};
    case 8:
      return {"Q8_0", DType::q8_0};
    case 10:
      return {"Q2_K", DType::q2_k};
    case 11:
      return {"Q3_K", DType::q3_k};
    case 12:
      return {"Q4_K", DType::q4_k};
    case 13:
      return {"Q5_K", DType::q5_k};
    case 14:
      return {"Q6_K", DType::q6_k};
    case 20:
      return {"IQ4_NL", DType::iq4_nl};
    case 23:
      return {"IQ4_XS", DType::iq4_xs};
    case 24:
      return {"I8", DType::i8};
    case 25:
      return {"I16", DType::i16};
    case 26:
      return {"I32", DType::i32};
    case 27:
      return {"I64", DType::i64};
    case 28:
      return {"F64", DType::f64};
    case 30:
      return {"BF16", DType::bf16};
    case 39:
      return {"MXFP4", DType::mxfp4};
    default:
      break;
  }
  static constexpr std::array<std::pair<std::uint32_t, std::string_view>, 11> kOthers = {{
      {9, "Q8_1"},
      {15, "Q8_K"},
      {16, "IQ2_XXS"},
      {17, "IQ2_XS"},
      {18, "IQ3_XXS"},
      {19, "IQ1_S"},
      {21, "IQ3_S"},
      {22, "IQ2_S"},
      {29, "IQ1_M"},
      {34, "TQ1_0"},
      {35, "TQ2_0"},
  }};
  for (const auto& [other, name] : kOthers) {
    if (other == number) return {name, std::nullopt};
  }
  return {"", std::nullopt};
}

constexpr std::string_view kKnownTypes =
    "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, "
    "MXFP4";

/// The start of a file, read as far as it is looked at.
class Window {
 public:
  /// All that there is.
  Window(std::string_view bytes, std::uint64_t file_bytes)
      : bytes_(bytes), file_bytes_(file_bytes) {}
  Window(const io::File& file, std::string& room)
      : file_(&file), room_(&room), file_bytes_(file.size()) {}

  std::uint64_t file_bytes() const { return file_bytes_; }
  std::string_view bytes() const { return file_ != nullptr ? std::string_view(*room_) : bytes_; }
  const std::optional<Error>& error() const { return error_; }

  /// Makes bytes [0, end) available; false when the file, or the limit, ends before.
  bool reach(std::uint64_t end) {
    if (end <= bytes().size()) return true;
    if (file_ == nullptr || error_ || end > file_bytes_ || end > kMaxGgufHeaderBytes) return false;
    const std::uint64_t begin = room_->size();
    const std::uint64_t want =
        std::min(file_bytes_, std::max({end, kFirstRead, begin + begin / 2}));
    room_->resize(want);
    const auto read = file_->read_exact(
        begin, std::as_writable_bytes(std::span(room_->data() + begin, want - begin)));
    if (read) return true;
    room_->resize(begin);
    error_ = read.error();
    return false;
  }

 private:
  std::string_view bytes_;
  const io::File* file_ = nullptr;
  std::string* room_ = nullptr;
  std::uint64_t file_bytes_;
  std::optional<Error> error_;
};

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7F; });
}

}  // namespace

/// Walks through one header. A member returns false when the header broke off: nothing that follows
/// can be found then. What is wrong within its bounds is a fault, and the walk goes on.
class GgufReader::Parser {
 public:
  Parser(GgufReader& reader, Window window, std::string_view file, Part part)
      : reader_(reader), window_(window), file_(file), part_(part) {}

  /// Returns where the metadata ends when all of the header could be walked through.
  std::optional<std::uint64_t> run() {
    if (!read_start() || !read_values()) return std::nullopt;
    const std::uint64_t metadata_end = at_;
    check_values();
    if (!read_tensors()) return std::nullopt;
    check_extents();
    return metadata_end;
  }

  std::vector<Metadata::Entry> take_entries() { return std::move(entries_); }
  std::string_view bytes() const { return window_.bytes(); }

 private:
  template <class... Args>
  void fault(fmt::format_string<Args...> format, Args&&... args) {
    reader_.faults_.add(file_, "{}; the file is damaged, download it again",
                        fmt::format(format, std::forward<Args>(args)...));
  }

  bool broke_off(std::string_view what) {
    if (window_.error()) {
      reader_.faults_.add_error(*window_.error());
    } else if (window_.file_bytes() > kMaxGgufHeaderBytes && at_ <= kMaxGgufHeaderBytes &&
               window_.bytes().size() >= kMaxGgufHeaderBytes / 2) {
      fault("{} reaches past {}, the longest header that Sluice reads", what,
            format_size(kMaxGgufHeaderBytes));
    } else {
      fault("the file ends at byte {}, inside {} that begins at byte {}", window_.file_bytes(),
            what, at_);
    }
    return false;
  }

  bool available(std::uint64_t bytes) {
    return bytes <= window_.file_bytes() && at_ <= window_.file_bytes() - bytes &&
           window_.reach(at_ + bytes);
  }

  template <class T>
  bool take(T& value, std::string_view what) {
    if (!available(sizeof(T))) return broke_off(what);
    std::memcpy(&value, window_.bytes().data() + at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }

  /// A string: its place and length. `most` bounds it.
  bool take_text(std::uint64_t& offset, std::uint64_t& size, std::uint64_t most,
                 std::string_view what) {
    if (!take(size, what)) return false;
    if (size > most) {
      fault("{} at byte {} is {} bytes long, expected at most {}", what, at_ - sizeof(size), size,
            most);
      return false;  // more likely a broken length than a long text
    }
    if (!available(size)) return broke_off(what);
    offset = at_;
    at_ += size;
    return true;
  }

  std::string_view text(std::uint64_t offset, std::uint64_t size) const {
    return window_.bytes().substr(offset, size);
  }

  bool read_start() {
    if (window_.file_bytes() == 0) {
      reader_.faults_.add(file_, "the file is empty; download it again");
      return false;
    }
    std::array<char, 4> magic{};
    std::uint32_t version = 0;
    if (!take(magic, "the magic number")) return false;
    const std::string_view letters(magic.data(), magic.size());
    if (letters == "FUGG") return byte_swapped();
    if (letters != "GGUF") return no_gguf(letters);
    if (!take(version, "the version")) return false;
    if (version != 0 && (version & 0xFFFF) == 0) return byte_swapped();
    if (version < kOldestVersion || version > kNewestVersion) {
      reader_.faults_.add(
          file_,
          "GGUF version {}; Sluice reads versions {} and {}, so download a {} file of the model",
          version, kOldestVersion, kNewestVersion,
          version < kOldestVersion ? "newer" : "compatible");
      return false;
    }
    if (!take(tensors_, "the number of tensors") ||
        !take(values_, "the number of metadata values")) {
      return false;
    }
    return check_number(tensors_, kLeastTensorBytes, "tensors") &&
           check_number(values_, kLeastValueBytes, "metadata values");
  }

  bool byte_swapped() {
    reader_.faults_.add(file_,
                        "is a GGUF file in big-endian byte order; Sluice reads little-endian ones: "
                        "download or convert the model as such");
    return false;
  }

  bool no_gguf(std::string_view letters) {
    if (!window_.reach(std::min<std::uint64_t>(kFormatBytes, window_.file_bytes()))) {
      return broke_off("the start");
    }
    if (const auto foreign = foreign_format(window_.bytes()); !foreign.empty()) {
      reader_.faults_.add(file_, "{}", foreign);
    } else if (letters == "lmgg" || letters == "fmgg" || letters == "tjgg" || letters == "algg") {
      reader_.faults_.add(file_,
                          "is of a GGML format older than GGUF; download a GGUF file of the model");
    } else {
      fault("expected a GGUF file, which begins with 'GGUF', found {}", shown(letters));
    }
    return false;
  }

  bool check_number(std::uint64_t number, std::uint64_t least_bytes, std::string_view what) {
    if (number <= window_.file_bytes() / least_bytes) return true;
    fault("the number of {} is given as {}, more than a file of {} bytes can hold", what, number,
          window_.file_bytes());
    return false;
  }

  bool read_values() {
    std::set<std::string, std::less<>> seen;
    for (std::uint64_t i = 0; i < values_; ++i) {
      Metadata::Entry entry;
      std::uint64_t size = 0;
      if (!take_text(entry.key, size, kMaxKeyBytes, "a metadata key")) return false;
      entry.key_bytes = static_cast<std::uint32_t>(size);
      const std::string key(text(entry.key, size));
      if (key.empty() || !is_printable(key)) {
        fault("metadata key number {} is {}, expected printable ASCII", i, shown(key));
      }
      if (!seen.insert(key).second) fault("metadata key {} is there twice", shown(key));
      if (!take_type(entry.type, key) || !read_value(entry, key)) return false;
      entries_.push_back(entry);
    }
    return true;
  }

  bool take_type(ValueType& type, std::string_view key) {
    std::uint32_t number = 0;
    if (!take(number, "the type of a metadata value")) return false;
    if (number < kValueTypes) {
      type = static_cast<ValueType>(number);
      return true;
    }
    fault("metadata {}: type {} is none of the {} that GGUF has", shown(key), number, kValueTypes);
    return false;
  }

  bool read_value(Metadata::Entry& entry, std::string_view key) {
    if (entry.type != ValueType::array) {
      entry.value = at_;
      return skip_values(entry.type, 1, key);
    }
    if (!take_type(entry.element, key) || !take(entry.count, "the length of a metadata array")) {
      return false;
    }
    entry.value = at_;
    return skip_values(entry.element, entry.count, key, 1);
  }

  /// Goes past `count` values of a type, and checks them.
  bool skip_values(ValueType type, std::uint64_t count, std::string_view key, int depth = 0) {
    if (const std::uint64_t each = bytes_of(type); each > 0) {
      if (count > window_.file_bytes() / each || !available(count * each)) {
        return broke_off(fmt::format("metadata {} ({} values)", shown(key), count));
      }
      if (type == ValueType::boolean) check_booleans(count, key);
      at_ += count * each;
      return true;
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      if (type == ValueType::string) {
        std::uint64_t offset = 0;
        std::uint64_t size = 0;
        if (!take_text(offset, size, window_.file_bytes(), "a metadata string")) return false;
        continue;
      }
      ValueType element = ValueType::u8;
      std::uint64_t inner = 0;
      if (!take_type(element, key) || !take(inner, "the length of a metadata array")) return false;
      if (depth >= kMaxArrayDepth) {
        fault("metadata {}: arrays nested more than {} deep", shown(key), kMaxArrayDepth);
        return false;
      }
      if (!skip_values(element, inner, key, depth + 1)) return false;
    }
    return true;
  }

  void check_booleans(std::uint64_t count, std::string_view key) {
    const auto wrong =
        std::ranges::find_if(text(at_, count), [](char c) { return c != 0 && c != 1; });
    if (wrong != text(at_, count).end()) {
      fault("metadata {}: a BOOL is stored as {}, expected 0 or 1", shown(key),
            static_cast<unsigned>(static_cast<unsigned char>(*wrong)));
    }
  }

  /// The value of a whole number among the entries, if it is there.
  std::optional<std::uint64_t> whole(std::string_view key, ValueType expected) {
    for (const Metadata::Entry& entry : entries_) {
      if (text(entry.key, entry.key_bytes) != key) continue;
      if (entry.type != expected) {
        fault("metadata {}: expected {}, found {}", key, name_of(expected), name_of(entry.type));
        return std::nullopt;
      }
      std::uint64_t value = 0;  // little-endian
      std::memcpy(&value, window_.bytes().data() + entry.value, bytes_of(expected));
      return value;
    }
    return std::nullopt;
  }

  /// What the container itself means by its metadata.
  void check_values() {
    if (const auto alignment = whole("general.alignment", ValueType::u32)) {
      const bool power = *alignment > 0 && (*alignment & (*alignment - 1)) == 0;
      if (power && *alignment <= kMaxAlignment) {
        alignment_ = *alignment;
      } else {
        fault("general.alignment is {}, expected a power of two up to {}", *alignment,
              kMaxAlignment);
      }
    }
    const std::uint64_t count = whole("split.count", ValueType::u16).value_or(0);
    const std::uint64_t number = whole("split.no", ValueType::u16).value_or(0);
    const auto tensors = whole("split.tensors.count", ValueType::i32);
    if (part_.number == 1 && count > 1) reader_.announced_tensors_ = tensors;
    if (std::max<std::uint64_t>(count, 1) != part_.count || number + 1 != part_.number) {
      reader_.faults_.add(
          file_,
          "says that it is part {} of {}, but its name makes it part {} of {}; give "
          "the file its own name back",
          number + 1, std::max<std::uint64_t>(count, 1), part_.number, part_.count);
    }
  }

  bool read_tensors() {
    for (std::uint64_t i = 0; i < tensors_; ++i) {
      if (reader_.table_.size() == TensorTable::kMaxTensors) {
        reader_.faults_.add(file_, "more than {} tensors in one model", TensorTable::kMaxTensors);
        return false;
      }
      if (!read_tensor(i)) return false;
    }
    return true;
  }

  bool read_tensor(std::uint64_t index) {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::uint32_t rank = 0;
    if (!take_text(offset, size, kMaxNameBytes, "a tensor's name")) return false;
    const std::string name(text(offset, size));
    if (!take(rank, "a tensor's dimensions")) return false;
    if (rank == 0 || rank > kMaxGgufDimensions) {
      fault("tensor {}: {} dimensions, expected 1 to {}", shown(name), rank, kMaxGgufDimensions);
      return false;  // how many follow is not certain
    }
    std::array<std::uint64_t, kMaxGgufDimensions> sizes{};
    for (std::uint32_t d = 0; d < rank; ++d) {
      if (!take(sizes[d], "a tensor's dimensions")) return false;
    }
    std::uint32_t type = 0;
    std::uint64_t place = 0;
    if (!take(type, "a tensor's type") || !take(place, "a tensor's offset")) return false;
    Shape shape;
    shape.rank = static_cast<std::uint8_t>(rank);
    // GGUF has the innermost dimension first.
    for (std::uint32_t d = 0; d < rank; ++d) shape.size[rank - 1 - d] = sizes[d];
    enter(index, name, type, shape, place);
    return true;
  }

  void enter(std::uint64_t index, const std::string& name, std::uint32_t type, const Shape& shape,
             std::uint64_t place) {
    bool sound = true;
    if (name.empty() || !is_utf8(name)) {
      fault("the name of tensor number {} is {}, expected UTF-8", index, shown(name));
      sound_ = false;
      return;
    }
    const auto dtype = dtype_of(name, type);
    const auto bytes = dtype ? bytes_of_tensor(name, *dtype, shape) : std::nullopt;
    if (place % alignment_ != 0) {
      fault("tensor {}: offset {} is no multiple of the alignment {}", shown(name), place,
            alignment_);
      sound = false;
    }
    sound = sound && bytes;
    sound_ = sound_ && sound;
    // The start of the data is not known yet: check_extents() adds it.
    places_.push_back({place, bytes.value_or(0), sound});
    const auto added =
        reader_.table_.add(name, dtype.value_or(DType::u8), bytes ? shape : Shape{}, place);
    if (added.is_new) {
      indices_.push_back(added.index);
      return;
    }
    places_.pop_back();
    sound_ = false;
    const std::uint32_t other = reader_.table_.file_of(added.index);
    if (other + 1 == reader_.file_names_.size()) {
      fault("tensor {} is in the header twice", shown(name));
    } else {
      reader_.faults_.add(file_,
                          "tensor {} is also in {}; remove the file that does not belong to the "
                          "model",
                          shown(name), reader_.file_names_[other]);
    }
  }

  std::optional<DType> dtype_of(const std::string& name, std::uint32_t number) {
    const GgmlType type = ggml_type(number);
    if (type.dtype) return type.dtype;
    if (type.name.empty()) {
      fault("tensor {}: type {} is not known; Sluice reads {}", shown(name), number, kKnownTypes);
    } else {
      reader_.faults_.add(
          file_,
          "tensor {}: type {} is not supported; Sluice reads {}: download the model "
          "in one of these",
          shown(name), type.name, kKnownTypes);
    }
    return std::nullopt;
  }

  std::optional<std::uint64_t> bytes_of_tensor(const std::string& name, DType dtype,
                                               const Shape& shape) {
    const std::uint64_t columns = shape.size[shape.rank - 1u];
    for (const std::uint64_t size : shape.sizes()) {
      if (size > 0) continue;
      fault("tensor {}: shape {}: a dimension of 0", shown(name), to_string(shape));
      return std::nullopt;
    }
    if (columns % elements_of(dtype) != 0) {
      fault("tensor {}: rows of {} elements, but {} has blocks of {}", shown(name), columns,
            name_of(dtype), elements_of(dtype));
      return std::nullopt;
    }
    const auto bytes = tensor_bytes(dtype, shape);
    if (!bytes) {
      fault("tensor {}: shape {}: the size in bytes exceeds 64 bits", shown(name),
            to_string(shape));
    }
    return bytes;
  }

  /// Where the data begins is known now: moves the tensors there and looks for overlaps and holes.
  void check_extents() {
    const std::uint64_t start = round_up(at_, alignment_);
    if (start > window_.file_bytes()) {
      if (tensors_ > 0) fault("the file ends at byte {}, before its data", window_.file_bytes());
      return;
    }
    const DataPart data{start, window_.file_bytes()};
    std::vector<Span> spans;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const Place& place = places_[i];
      if (!place.sound) continue;
      std::uint64_t end = 0;
      if (__builtin_add_overflow(place.offset, place.bytes, &end)) {
        fault("tensor {}: offset {}: the end exceeds 64 bits",
              shown(reader_.table_.name(indices_[i])), place.offset);
        sound_ = false;
        continue;
      }
      // What fills the room to the next multiple of the alignment belongs to the tensor before.
      const std::uint64_t filled = end + (alignment_ - end % alignment_) % alignment_;
      if (end <= data.bytes()) end = std::clamp(filled, end, data.bytes());
      spans.push_back({place.offset, end, indices_[i]});
      reader_.table_.move(indices_[i], start);
    }
    check_layout(
        spans, data, sound_, file_,
        [this](std::uint32_t tensor) { return reader_.table_.name(tensor); }, reader_.faults_);
  }

  struct Place {
    std::uint64_t offset;
    std::uint64_t bytes;
    bool sound;
  };

  GgufReader& reader_;
  Window window_;
  std::string_view file_;
  Part part_;
  std::uint64_t at_ = 0;
  std::uint64_t tensors_ = 0;
  std::uint64_t values_ = 0;
  std::uint64_t alignment_ = kDefaultAlignment;
  std::vector<Metadata::Entry> entries_;
  std::vector<Place> places_;
  std::vector<std::uint32_t> indices_;  // in the table, of places_
  bool sound_ = true;
};

void GgufReader::begin_file(std::string_view file) {
  table_.begin_file();
  file_names_.emplace_back(file);
}

std::uint64_t GgufReader::read(const std::filesystem::path& path, Part part) {
  const std::string name = path.filename().string();
  begin_file(name);
  auto file = io::File::open(path);
  if (!file) {
    faults_.add_error(std::move(file).error());
    all_sound_ = false;
    return 0;
  }
  std::string room;
  Parser parser(*this, Window(*file, room), name, part);
  const auto metadata_end = parser.run();
  all_sound_ = all_sound_ && metadata_end;
  if (part.number == 1 && metadata_end) {
    room.resize(*metadata_end);
    room.shrink_to_fit();
    metadata_ = Metadata(name, std::move(room), parser.take_entries());
  }
  return file->size();
}

void GgufReader::read_header(std::string_view start, std::uint64_t file_bytes,
                             std::string_view file, Part part) {
  begin_file(file);
  Parser parser(*this, Window(start, file_bytes), file, part);
  const auto metadata_end = parser.run();
  all_sound_ = all_sound_ && metadata_end;
  if (part.number == 1 && metadata_end) {
    metadata_ = Metadata(std::string(file), std::string(start.substr(0, *metadata_end)),
                         parser.take_entries());
  }
}

void GgufReader::finish() {
  if (!all_sound_ || !announced_tensors_ || *announced_tensors_ == table_.size()) return;
  faults_.add(file_names_.front(),
              "split.tensors.count is {}, but the parts hold {} tensors; a part is of another "
              "release: download all parts again",
              *announced_tensors_, table_.size());
}

}  // namespace sluice::store
