#include "store/shard.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/size.h"
#include "io/file.h"

namespace sluice::store {
namespace {

constexpr std::uint64_t kLengthBytes = 8;  // the header's length comes first

static_assert(std::endian::native == std::endian::little,
              "weights are used as they lie in the files, which are little-endian");

std::uint64_t byte_swapped(std::uint64_t value) {
  std::uint64_t swapped = 0;
  for (int byte = 0; byte < 8; ++byte) swapped = swapped << 8 | ((value >> (8 * byte)) & 0xFF);
  return swapped;
}

}  // namespace

std::optional<std::uint64_t> ShardReader::header_bytes(std::string_view start,
                                                       std::uint64_t file_bytes,
                                                       std::string_view file) {
  if (file_bytes == 0) {
    faults_.add(file, "the file is empty; download it again");
    return std::nullopt;
  }
  if (const auto foreign = foreign_format(start); !foreign.empty()) {
    faults_.add(file, "{}", foreign);
    return std::nullopt;
  }
  if (file_bytes < kLengthBytes) {
    faults_.add(file,
                "expected at least {} bytes (the length of the header), found {}; download "
                "the file again",
                kLengthBytes, file_bytes);
    return std::nullopt;
  }
  std::uint64_t length = 0;
  std::memcpy(&length, start.data(), sizeof(length));
  const std::uint64_t room = file_bytes - kLengthBytes;
  if (length > room && byte_swapped(length) <= room) {
    faults_.add(file,
                "the length of the header is in big-endian byte order ({} bytes if read so); "
                "safetensors files are little-endian: download the file as released",
                byte_swapped(length));
    return std::nullopt;
  }
  if (length > room) {
    faults_.add(file,
                "the header's length is given as {} bytes, but only {} bytes of the file "
                "follow; the download is incomplete or this is no safetensors file: download it "
                "again",
                length, room);
    return std::nullopt;
  }
  if (length > kMaxHeaderBytes) {
    faults_.add(file,
                "a header of {} bytes; Sluice reads headers of at most {} bytes ({}, "
                "kMaxHeaderBytes in the source)",
                length, kMaxHeaderBytes, format_size(kMaxHeaderBytes));
    return std::nullopt;
  }
  if (length < 2) {
    faults_.add(file,
                "a header of {} bytes: expected at least 2, an empty JSON object; the file is "
                "damaged, download it again",
                length);
    return std::nullopt;
  }
  return length;
}

Result<ShardReader::Outcome> ShardReader::read(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  SLUICE_ASSIGN(const io::File file, io::File::open(path));
  Outcome outcome{file.size(), false};
  std::array<char, kFormatBytes> start;
  const std::size_t start_bytes = std::min<std::uint64_t>(start.size(), file.size());
  SLUICE_TRY(file.read_exact(0, std::as_writable_bytes(std::span(start.data(), start_bytes))));
  const auto length = header_bytes({start.data(), start_bytes}, file.size(), name);
  if (length) SLUICE_TRY(file.read_exact(kLengthBytes, header_.resize(*length)));
  begin_file(name);
  if (length) outcome.all_names = parse_header(header_, file.size(), name);
  return outcome;
}

Status ShardReader::compare(const std::filesystem::path& copy,
                            const std::filesystem::path& original, const Outcome& outcome) {
  const std::string name = copy.string();
  SLUICE_ASSIGN(const io::File file, io::File::open(copy));
  if (outcome.file_bytes == 0) return {};  // the original is empty, which is its fault
  if (file.size() != outcome.file_bytes) {
    faults_.add(name, "expected {} bytes as in {}, found {}; copy the file again",
                outcome.file_bytes, original.string(), file.size());
    return {};
  }
  if (!outcome.all_names) return {};  // the original has its fault already
  const std::uint64_t length = header_.view().size();
  std::string expected(kLengthBytes, '\0');
  std::memcpy(expected.data(), &length, sizeof(length));
  expected += header_.view();
  std::string found(expected.size(), '\0');
  SLUICE_TRY(file.read_exact(0, std::as_writable_bytes(std::span(found))));
  const auto [at, other] = std::mismatch(expected.begin(), expected.end(), found.begin());
  if (at == expected.end()) return {};
  faults_.add(name,
              "expected the header of {}, found another from byte {} on ({:#04x}, not {:#04x}); it "
              "is another file or damaged: copy it again",
              original.string(), at - expected.begin(), static_cast<unsigned char>(*other),
              static_cast<unsigned char>(*at));
  return {};
}

bool ShardReader::read_header(const PaddedText& header, std::uint64_t file_bytes,
                              std::string_view file) {
  begin_file(file);
  return parse_header(header, file_bytes, file);
}

void ShardReader::begin_file(std::string_view file) {
  table_.begin_file();
  file_names_.emplace_back(file);
}

bool ShardReader::parse_header(const PaddedText& header, std::uint64_t file_bytes,
                               std::string_view file) {
  if (!header.view().starts_with('{')) {
    faults_.add(file,
                "expected the header to begin with '{{', found {}; this is no safetensors "
                "file or it is damaged: download it again",
                shown(header.view().substr(0, 8)));
    return false;
  }
  const DataPart data{kLengthBytes + header.view().size(), file_bytes};
  spans_.clear();
  all_sound_ = true;
  const bool all_names = parser_.parse(
      header, file, faults_, [&](const HeaderTensor& tensor) { enter(tensor, data.start, file); });
  // A header that broke off says nothing about the file's size.
  if (all_names) {
    check_layout(
        spans_, data, all_sound_, file, [&](std::uint32_t tensor) { return table_.name(tensor); },
        faults_);
  }
  return all_names;
}

void ShardReader::enter(const HeaderTensor& tensor, std::uint64_t data_start,
                        std::string_view file) {
  if (table_.size() == TensorTable::kMaxTensors) {
    faults_.add(file, "more than {} tensors in one model", TensorTable::kMaxTensors);
    return;
  }
  // The unsound ones are entered too, so that an index that names them is not blamed for it.
  const Shape shape = tensor.sound ? tensor.shape : Shape{};
  const auto added = table_.add(tensor.name, tensor.dtype, shape, data_start + tensor.begin);
  all_sound_ = all_sound_ && tensor.sound;
  if (tensor.sound) spans_.push_back({tensor.begin, tensor.end, added.index});
  if (added.is_new) return;
  const std::uint32_t other = table_.file_of(added.index);
  if (other + 1 == file_names_.size()) {
    faults_.add(file, "tensor {} is in the header twice; the file is damaged, download it again",
                shown(tensor.name));
  } else {
    faults_.add(file, "tensor {} is also in {}; remove the file that does not belong to the model",
                shown(tensor.name), file_names_[other]);
  }
}

}  // namespace sluice::store
