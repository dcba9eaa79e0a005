#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "store/checksum.h"
#include "store/header.h"
#include "store/pack_index.h"
#include "store/pack_records.h"
#include "store/pack_stripes.h"
#include "store/text_file.h"

namespace sluice::store {
namespace {

template <class Record>
void take(std::span<const std::byte>& from, std::vector<Record>& records, std::size_t count) {
  records.resize(count);
  if (count > 0) std::memcpy(records.data(), from.data(), count * sizeof(Record));
  from = from.subspan(count * sizeof(Record));
}

std::size_t slots_in(std::string_view pattern) {
  return static_cast<std::size_t>(std::count(pattern.begin(), pattern.end(), NameParts::kSlot));
}

/// Decodes section after section; `good()` is false once something was wrong.
class Decoder {
 public:
  Decoder(std::span<const std::byte> bytes, std::string_view file, FaultList& faults)
      : bytes_(bytes), rest_(bytes), file_(file), faults_(faults) {}

  std::optional<PackIndex> decode() {
    if (read_head() && check_hash() && read_texts() && read_deal() && read_kinds() &&
        read_tensors() && read_blocks() && read_companions()) {
      return std::move(index_);
    }
    return std::nullopt;
  }

 private:
  template <class... Args>
  bool wrong(fmt::format_string<Args...> format, Args&&... args) {
    faults_.add(file_, "{}; the pack's index is damaged: pack the model again",
                fmt::format(format, std::forward<Args>(args)...));
    return false;
  }

  bool read_head() {
    if (bytes_.size() < sizeof(PackIndexHead) + kPackHashBytes) {
      return wrong("expected at least {} bytes, found {}", sizeof(PackIndexHead) + kPackHashBytes,
                   bytes_.size());
    }
    std::memcpy(&head_, bytes_.data(), sizeof(head_));
    rest_ = bytes_.subspan(sizeof(head_));
    if (std::string_view(head_.magic, sizeof(head_.magic)) != kPackIndexMagic) {
      return wrong("expected it to begin with '{}', found {}", kPackIndexMagic,
                   shown({head_.magic, sizeof(head_.magic)}));
    }
    if (head_.version != kPackIndexVersion) {
      faults_.add(file_, "a pack of format {}; this program reads format {}: {}", head_.version,
                  kPackIndexVersion,
                  head_.version < kPackIndexVersion ? "pack the model again, into new folders"
                                                    : "it needs a newer sluice");
      return false;
    }
    return check_counts();
  }

  /// Every count must be borne out by bytes that are there, before memory is taken for it.
  bool check_counts() {
    if (head_.folders < 1 || head_.folders > kMostParts) {
      return wrong("{} folders: expected 1 to {}", head_.folders, kMostParts);
    }
    if (head_.deal < 1 || head_.deal > kMostDeal) {
      return wrong("a deal of {} chunks: expected 1 to {}", head_.deal, kMostDeal);
    }
    if (head_.chunk_bytes == 0 || head_.chunk_bytes % kPackAlignment != 0 ||
        head_.chunk_bytes > kMostPackBytes) {
      return wrong("chunks of {} bytes: expected a multiple of {}", head_.chunk_bytes,
                   kPackAlignment);
    }
    const std::uint64_t size = bytes_.size();
    for (const std::uint64_t count : {head_.text_bytes, head_.tensors, head_.blocks, head_.units}) {
      if (count > size) return wrong("a count of {} in an index of {} bytes", count, size);
    }
    const std::uint64_t expected =
        sizeof(PackIndexHead) +
        sizeof(std::uint32_t) * (head_.folders + std::uint64_t{head_.patterns} + head_.companions) +
        head_.text_bytes + head_.deal + sizeof(PackKindRecord) * std::uint64_t{head_.kinds} +
        sizeof(PackTensor) * head_.tensors + sizeof(PackBlock) * head_.blocks +
        sizeof(std::uint64_t) * head_.units +
        sizeof(PackCompanionRecord) * std::uint64_t{head_.companions} + kPackHashBytes;
    if (expected != size) {
      return wrong("by its counts it has {} bytes, found {}", expected, size);
    }
    return true;
  }

  bool check_hash() {
    std::uint64_t stored = 0;
    const auto body = bytes_.first(bytes_.size() - kPackHashBytes);
    std::memcpy(&stored, bytes_.data() + body.size(), sizeof(stored));
    const std::uint64_t found = checksum_of(body);
    if (stored == found) return true;
    return wrong("its own checksum is given as {:016x}, found {:016x}", stored, found);
  }

  bool read_texts() {
    std::vector<std::uint32_t> lengths;
    take(rest_, lengths, head_.folders + std::size_t{head_.patterns} + head_.companions);
    std::vector<char> text;
    take(rest_, text, static_cast<std::size_t>(head_.text_bytes));
    std::size_t at = 0;
    for (const std::uint32_t length : lengths) {
      if (length > text.size() - at) return wrong("a text reaches beyond the texts");
      if (!take_text({text.data() + at, length})) return false;
      at += length;
    }
    if (at != text.size()) return wrong("{} bytes of text are nobody's", text.size() - at);
    for (const std::string& pattern : index_.patterns) {
      if (pattern.size() > kMostPatternBytes) {
        return wrong("a pattern of names has {} bytes: expected at most {}", pattern.size(),
                     kMostPatternBytes);
      }
      std::string plain = pattern;
      std::replace(plain.begin(), plain.end(), NameParts::kSlot, '0');
      if (slots_in(pattern) > NameParts::kNumbers || !is_utf8(plain)) {
        return wrong("{} is no pattern of names", shown(plain));
      }
    }
    return true;
  }

  bool take_text(std::string one) {
    if (index_.folders.size() < head_.folders) {
      if (one.empty() || one.find('\0') != std::string::npos) {
        return wrong("{} is no name of a folder", shown(one));
      }
      index_.folders.push_back(std::move(one));
    } else if (index_.patterns.size() < head_.patterns) {
      index_.patterns.push_back(std::move(one));
    } else {
      const bool follows = index_.companions.empty() || index_.companions.back().name < one;
      if (!follows || !is_companion_name(one)) {
        return wrong("{} is no name of a file beside the weights, or not in order", shown(one));
      }
      index_.companions.push_back({std::move(one), 0, 0});
    }
    return true;
  }

  bool read_deal() {
    take(rest_, index_.deal, head_.deal);
    std::array<bool, kMostParts> dealt{};
    for (const std::uint8_t part : index_.deal) {
      if (part >= head_.folders)
        return wrong("a chunk is dealt to part {} of {}", part + 1, head_.folders);
      dealt[part] = true;
    }
    for (std::size_t part = 0; part < head_.folders; ++part) {
      if (!dealt[part]) return wrong("part {} of {} is dealt nothing", part + 1, head_.folders);
    }
    index_.chunk_bytes = head_.chunk_bytes;
    index_.identity = head_.identity;
    return true;
  }

  bool read_kinds() {
    std::vector<PackKindRecord> records;
    take(rest_, records, head_.kinds);
    for (const PackKindRecord& record : records) {
      PackKind kind;
      const bool known = record.dtype <= static_cast<std::uint8_t>(DType::f64);
      if (!known || record.rank > kMaxDimensions || record.reserved16 != 0 ||
          record.reserved32 != 0) {
        return wrong("type {} with {} dimensions is none", record.dtype, record.rank);
      }
      kind.dtype = static_cast<DType>(record.dtype);
      kind.shape.rank = record.rank;
      std::copy(std::begin(record.size), std::end(record.size), kind.shape.size.begin());
      for (std::size_t i = record.rank; i < kMaxDimensions; ++i) {
        if (record.size[i] != 0) return wrong("a shape has more sizes than dimensions");
      }
      const auto bytes = tensor_bytes(kind.dtype, kind.shape);
      if (!bytes || *bytes > kMostPackBytes) {
        return wrong("a tensor of shape {} is too large", to_string(kind.shape));
      }
      index_.kinds.push_back(kind);
    }
    return true;
  }

  bool read_tensors() {
    take(rest_, index_.tensors, static_cast<std::size_t>(head_.tensors));
    for (const PackTensor& tensor : index_.tensors) {
      if (tensor.pattern >= index_.patterns.size() || tensor.kind >= index_.kinds.size()) {
        return wrong("a tensor has pattern {} of {} and kind {} of {}", tensor.pattern,
                     index_.patterns.size(), tensor.kind, index_.kinds.size());
      }
      for (std::size_t i = slots_in(index_.patterns[tensor.pattern]); i < tensor.numbers.size();
           ++i) {
        if (tensor.numbers[i] != 0) return wrong("a tensor's name has a number too many");
      }
    }
    return true;
  }

  bool read_blocks() {
    take(rest_, index_.blocks, static_cast<std::size_t>(head_.blocks));
    take(rest_, index_.checksums, static_cast<std::size_t>(head_.units));
    std::uint64_t tensor = 0;
    for (std::size_t i = 0; i < index_.blocks.size(); ++i) {
      const PackBlock& block = index_.blocks[i];
      if (block.tensors == 0 || block.tensors > index_.tensors.size() - tensor) {
        return wrong("block {} has {} tensors, {} are left", i, block.tensors,
                     index_.tensors.size() - tensor);
      }
      if (block.unit_rows > 0 && block.tensors > 1) {
        return wrong("block {} has units of rows, but {} tensors", i, block.tensors);
      }
      tensor += block.tensors;
    }
    if (tensor != index_.tensors.size()) {
      return wrong("{} tensors are in no block", index_.tensors.size() - tensor);
    }
    return check_sums();
  }

  bool read_companions() {
    std::vector<PackCompanionRecord> records;
    take(rest_, records, head_.companions);
    for (std::size_t i = 0; i < records.size(); ++i) {
      index_.companions[i].bytes = records[i].bytes;
      index_.companions[i].checksum = records[i].checksum;
    }
    return true;
  }

  bool check_sums() {
    BlockWalk walk(index_);
    for (; !walk.done(); walk.next()) {
      // Each step adds less than 2^60 * 2^32 tensors could, so look before the sum can wrap.
      std::uint64_t bytes = walk.offset();
      const PackBlock& block = index_.blocks[walk.block()];
      for (std::size_t i = 0; i < block.tensors; ++i) {
        bytes += bytes_of(index_.kinds[index_.tensors[walk.first_tensor() + i].kind]);
        if (bytes > kMostPackBytes) return wrong("its blocks are larger than any drive");
      }
    }
    if (walk.first_unit() != index_.checksums.size()) {
      return wrong("its blocks have {} units, but there are {} checksums", walk.first_unit(),
                   index_.checksums.size());
    }
    if (walk.offset() != head_.stream_bytes) {
      return wrong("its blocks have {} bytes, but the stream is said to have {}", walk.offset(),
                   head_.stream_bytes);
    }
    return true;
  }

  std::span<const std::byte> bytes_;
  std::span<const std::byte> rest_;
  std::string_view file_;
  FaultList& faults_;
  PackIndexHead head_{};
  PackIndex index_;
};

}  // namespace

std::optional<PackIndex> decode_pack_index(std::span<const std::byte> bytes, std::string_view file,
                                           FaultList& faults) {
  return Decoder(bytes, file, faults).decode();
}

}  // namespace sluice::store
