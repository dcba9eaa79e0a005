#include "store/gguf.h"

#include <algorithm>
#include <array>
#include <utility>

#include "store/gguf_cursor.h"
#include "store/gguf_tensors.h"
#include "store/gguf_values.h"
#include "store/text_file.h"

namespace sluice::store {
namespace {

constexpr std::uint32_t kOldestVersion = 2;
constexpr std::uint32_t kNewestVersion = 3;
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kMaxAlignment = std::uint64_t{1} << 20;

// The fewest bytes that one entry takes: lengths, types and a value of one byte.
constexpr std::uint64_t kLeastValueBytes = 8 + 1 + 4 + 1;
constexpr std::uint64_t kLeastTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

}  // namespace

/// Walks through one header. A member returns false when nothing that follows can be found; it has
/// added to the faults why.
class GgufReader::Parser {
 public:
  Parser(GgufReader& reader, GgufWindow window, std::string_view file, Part part)
      : reader_(reader),
        cursor_(std::move(window), file, reader.faults_),
        values_(cursor_),
        part_(part) {}

  /// Returns where the metadata ends when all of the header could be walked through.
  std::optional<std::uint64_t> run() {
    std::uint64_t tensors = 0;
    std::uint64_t values = 0;
    if (!read_start() || !read_numbers(tensors, values) || !values_.read(values)) {
      return std::nullopt;
    }
    const std::uint64_t metadata_end = cursor_.at();
    check_part();
    GgufTensors entries(cursor_, reader_.table_, reader_.file_names_, alignment());
    if (!entries.read(tensors)) return std::nullopt;
    return metadata_end;
  }

  std::vector<Metadata::Entry> take_entries() { return values_.take_entries(); }

 private:
  bool read_start() {
    if (cursor_.file_bytes() == 0) {
      cursor_.fault("the file is empty; download it again");
      return false;
    }
    std::array<char, 4> magic{};
    std::uint32_t version = 0;
    if (!cursor_.take(magic, "the magic number")) return false;
    const std::string_view letters(magic.data(), magic.size());
    if (letters == "FUGG") return byte_swapped();
    if (letters != "GGUF") return no_gguf(letters);
    if (!cursor_.take(version, "the version")) return false;
    if (version != 0 && (version & 0xFFFF) == 0) return byte_swapped();
    if (version >= kOldestVersion && version <= kNewestVersion) return true;
    cursor_.fault(
        "GGUF version {}; Sluice reads versions {} and {}, so download a {} file of the model",
        version, kOldestVersion, kNewestVersion, version < kOldestVersion ? "newer" : "compatible");
    return false;
  }

  bool byte_swapped() {
    cursor_.fault(
        "is a GGUF file in big-endian byte order; Sluice reads little-endian ones: download or "
        "convert the model as such");
    return false;
  }

  bool no_gguf(std::string_view letters) {
    if (!cursor_.look_at_start(kFormatBytes)) return false;
    if (const auto foreign = foreign_format(cursor_.bytes()); !foreign.empty()) {
      cursor_.fault("{}", foreign);
    } else if (letters == "lmgg" || letters == "fmgg" || letters == "tjgg" || letters == "algg") {
      cursor_.fault("is of a GGML format older than GGUF; download a GGUF file of the model");
    } else {
      cursor_.damaged("expected a GGUF file, which begins with 'GGUF', found {}", shown(letters));
    }
    return false;
  }

  bool read_numbers(std::uint64_t& tensors, std::uint64_t& values) {
    return cursor_.take(tensors, "the number of tensors") &&
           cursor_.take(values, "the number of metadata values") &&
           check_number(tensors, kLeastTensorBytes, "tensors") &&
           check_number(values, kLeastValueBytes, "metadata values");
  }

  bool check_number(std::uint64_t number, std::uint64_t least_bytes, std::string_view what) {
    if (number <= cursor_.file_bytes() / least_bytes) return true;
    cursor_.damaged("the number of {} is given as {}, more than a file of {} bytes can hold", what,
                    number, cursor_.file_bytes());
    return false;
  }

  /// Of each tensor's data, in bytes.
  std::uint64_t alignment() {
    const auto asked = values_.whole("general.alignment", ValueType::u32);
    if (!asked) return kDefaultAlignment;
    const bool power = *asked > 0 && (*asked & (*asked - 1)) == 0;
    if (power && *asked <= kMaxAlignment) return *asked;
    cursor_.damaged("general.alignment is {}, expected a power of two up to {}", *asked,
                    kMaxAlignment);
    return kDefaultAlignment;
  }

  /// Whether the file is the part of a split model that it is called.
  void check_part() {
    const std::uint64_t said = values_.whole("split.count", ValueType::u16).value_or(0);
    const std::uint64_t count = std::max<std::uint64_t>(said, 1);
    const std::uint64_t number = values_.whole("split.no", ValueType::u16).value_or(0) + 1;
    const auto tensors = values_.whole("split.tensors.count", ValueType::i32);
    if (part_.number == 1 && count > 1) reader_.announced_tensors_ = tensors;
    if (count == part_.count && number == part_.number) return;
    cursor_.fault(
        "says that it is part {} of {}, but its name makes it part {} of {}; give the file its own "
        "name back",
        number, count, part_.number, part_.count);
  }

  GgufReader& reader_;
  GgufCursor cursor_;
  GgufValues values_;
  Part part_;
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
  Parser parser(*this, GgufWindow(*file, room), name, part);
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
  Parser parser(*this, GgufWindow(start, file_bytes), file, part);
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
