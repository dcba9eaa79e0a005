#include "store/pack_index.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/size.h"
#include "store/checkpoint.h"
#include "store/checksum.h"
#include "store/header.h"
#include "store/pack_stripes.h"
#include "store/text_file.h"

namespace sluice::store {
namespace {

constexpr std::string_view kIndexMagic = "SLUICEPK";
constexpr std::string_view kPartMagic = "SLUICEPD";
constexpr std::uint32_t kVersion = 2;  // of the index; 1 knew no companions
constexpr std::uint32_t kPartVersion = 1;
constexpr std::uint64_t kHashBytes = sizeof(std::uint64_t);

/// The fixed part at the start of an index. Little-endian, no padding.
struct Head {
  char magic[8];
  std::uint32_t version;
  std::uint32_t folders;
  std::uint32_t deal;
  std::uint32_t patterns;
  std::uint32_t kinds;
  std::uint32_t companions;
  std::uint64_t text_bytes;
  std::uint64_t tensors;
  std::uint64_t blocks;
  std::uint64_t units;
  std::uint64_t chunk_bytes;
  std::uint64_t stream_bytes;
  std::uint64_t identity;
};
static_assert(sizeof(Head) == 88);

struct KindRecord {
  std::uint8_t dtype;
  std::uint8_t rank;
  std::uint16_t reserved16;
  std::uint32_t reserved32;
  std::uint64_t size[kMaxDimensions];
};
static_assert(sizeof(KindRecord) == 72);

struct CompanionRecord {
  std::uint64_t bytes;
  std::uint64_t checksum;
};
static_assert(sizeof(CompanionRecord) == 16);
static_assert(sizeof(PackTensor) == 24 && sizeof(PackBlock) == 16);

struct PartHead {
  char magic[8];
  std::uint32_t version;
  std::uint32_t part;
  std::uint32_t parts;
  std::uint32_t reserved;
  std::uint64_t identity;
  std::uint64_t data_bytes;
};
static_assert(sizeof(PartHead) == 40);

template <class Record>
void append(std::vector<std::byte>& to, const Record* records, std::size_t count) {
  const std::size_t before = to.size();
  to.resize(before + count * sizeof(Record));
  if (count > 0) std::memcpy(to.data() + before, records, count * sizeof(Record));
}

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
    if (bytes_.size() < sizeof(Head) + kHashBytes) {
      return wrong("expected at least {} bytes, found {}", sizeof(Head) + kHashBytes,
                   bytes_.size());
    }
    std::memcpy(&head_, bytes_.data(), sizeof(head_));
    rest_ = bytes_.subspan(sizeof(head_));
    if (std::string_view(head_.magic, sizeof(head_.magic)) != kIndexMagic) {
      return wrong("expected it to begin with '{}', found {}", kIndexMagic,
                   shown({head_.magic, sizeof(head_.magic)}));
    }
    if (head_.version != kVersion) {
      faults_.add(file_, "a pack of format {}; this program reads format {}: {}", head_.version,
                  kVersion,
                  head_.version < kVersion ? "pack the model again, into new folders"
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
        sizeof(Head) +
        sizeof(std::uint32_t) * (head_.folders + std::uint64_t{head_.patterns} + head_.companions) +
        head_.text_bytes + head_.deal + sizeof(KindRecord) * std::uint64_t{head_.kinds} +
        sizeof(PackTensor) * head_.tensors + sizeof(PackBlock) * head_.blocks +
        sizeof(std::uint64_t) * head_.units +
        sizeof(CompanionRecord) * std::uint64_t{head_.companions} + kHashBytes;
    if (expected != size) {
      return wrong("by its counts it has {} bytes, found {}", expected, size);
    }
    return true;
  }

  bool check_hash() {
    std::uint64_t stored = 0;
    const auto body = bytes_.first(bytes_.size() - kHashBytes);
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
    std::vector<KindRecord> records;
    take(rest_, records, head_.kinds);
    for (const KindRecord& record : records) {
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
    std::vector<CompanionRecord> records;
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
  Head head_{};
  PackIndex index_;
};

}  // namespace

bool is_companion_name(std::string_view name) {
  return !name.empty() && !name.starts_with('.') && !is_weights_name(name) &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

std::string pack_part_name(std::size_t part, std::size_t parts) {
  return fmt::format("sluice-pack-{}-of-{}.data", part + 1, parts);
}

std::uint64_t bytes_of(const PackKind& kind) {
  return tensor_bytes(kind.dtype, kind.shape).value_or(0);
}

BlockSpan BlockWalk::span() const {
  const PackBlock& block = index_.blocks[block_];
  BlockSpan span{offset_, 0, 0};
  for (std::size_t i = 0; i < block.tensors; ++i) {
    span.bytes += bytes_of(index_.kinds[index_.tensors[tensor_ + i].kind]);
  }
  span.unit_bytes = span.bytes;
  const Shape& shape = index_.kinds[index_.tensors[tensor_].kind].shape;
  const std::uint64_t rows = shape.rank > 0 ? shape.size[0] : 1;
  // Rows beyond the tensor's would be no more than the whole of it.
  if (block.unit_rows > 0 && block.unit_rows < rows) {
    span.unit_bytes = span.bytes / rows * block.unit_rows;
  }
  return span;
}

void BlockWalk::next() {
  const BlockSpan at = span();
  unit_ += at.units();
  offset_ = round_up(at.offset + at.bytes, kPackAlignment);
  tensor_ += index_.blocks[block_].tensors;
  ++block_;
}

std::uint64_t stream_bytes(const PackIndex& index) {
  BlockWalk walk(index);
  while (!walk.done()) walk.next();
  return walk.offset();
}

std::uint64_t unit_count(const PackIndex& index) {
  BlockWalk walk(index);
  while (!walk.done()) walk.next();
  return walk.first_unit();
}

PackTensor PackTensorMaker::make(std::string_view name, DType dtype, const Shape& shape) {
  parts_.take_apart(name);
  const auto [pattern, new_pattern] =
      patterns_.try_emplace(parts_.pattern, static_cast<std::uint32_t>(index_.patterns.size()));
  if (new_pattern) index_.patterns.push_back(parts_.pattern);
  const std::string key = fmt::format("{}{}", name_of(dtype), to_string(shape));
  const auto [kind, new_kind] =
      kinds_.try_emplace(key, static_cast<std::uint32_t>(index_.kinds.size()));
  if (new_kind) index_.kinds.push_back({dtype, shape});
  return {pattern->second, kind->second, parts_.numbers};
}

std::vector<std::byte> encode_pack_index(const PackIndex& index) {
  Head head{};
  std::copy(kIndexMagic.begin(), kIndexMagic.end(), head.magic);
  head.version = kVersion;
  head.folders = static_cast<std::uint32_t>(index.folders.size());
  head.deal = static_cast<std::uint32_t>(index.deal.size());
  head.patterns = static_cast<std::uint32_t>(index.patterns.size());
  head.kinds = static_cast<std::uint32_t>(index.kinds.size());
  head.companions = static_cast<std::uint32_t>(index.companions.size());
  std::vector<std::uint32_t> lengths;
  std::string text;
  const auto add_text = [&](const std::string& each) {
    lengths.push_back(static_cast<std::uint32_t>(each.size()));
    text += each;
  };
  for (const std::string& folder : index.folders) add_text(folder);
  for (const std::string& pattern : index.patterns) add_text(pattern);
  std::vector<CompanionRecord> companions;
  for (const PackCompanion& companion : index.companions) {
    add_text(companion.name);
    companions.push_back({companion.bytes, companion.checksum});
  }
  head.text_bytes = text.size();
  head.tensors = index.tensors.size();
  head.blocks = index.blocks.size();
  head.units = index.checksums.size();
  head.chunk_bytes = index.chunk_bytes;
  head.stream_bytes = stream_bytes(index);
  head.identity = index.identity;
  std::vector<KindRecord> kinds;
  for (const PackKind& kind : index.kinds) {
    KindRecord record{static_cast<std::uint8_t>(kind.dtype), kind.shape.rank, 0, 0, {}};
    std::copy(kind.shape.sizes().begin(), kind.shape.sizes().end(), std::begin(record.size));
    kinds.push_back(record);
  }
  std::vector<std::byte> out;
  append(out, &head, 1);
  append(out, lengths.data(), lengths.size());
  append(out, text.data(), text.size());
  append(out, index.deal.data(), index.deal.size());
  append(out, kinds.data(), kinds.size());
  append(out, index.tensors.data(), index.tensors.size());
  append(out, index.blocks.data(), index.blocks.size());
  append(out, index.checksums.data(), index.checksums.size());
  append(out, companions.data(), companions.size());
  const std::uint64_t hash = checksum_of(out);
  append(out, &hash, 1);
  return out;
}

std::optional<PackIndex> decode_pack_index(std::span<const std::byte> bytes, std::string_view file,
                                           FaultList& faults) {
  return Decoder(bytes, file, faults).decode();
}

bool enter_pack_tensors(const PackIndex& index, std::string_view file, TensorTable& table,
                        FaultList& faults) {
  if (index.tensors.size() > TensorTable::kMaxTensors) {
    faults.add(file, "more than {} tensors in one model", TensorTable::kMaxTensors);
    return false;
  }
  table.reserve(static_cast<std::uint32_t>(index.tensors.size()));
  table.begin_file();
  std::string name;
  bool sound = true;
  for (BlockWalk walk(index); !walk.done(); walk.next()) {
    std::uint64_t offset = walk.offset();
    for (std::size_t i = 0; i < index.blocks[walk.block()].tensors; ++i) {
      const PackTensor& tensor = index.tensors[walk.first_tensor() + i];
      const PackKind& kind = index.kinds[tensor.kind];
      index.name(tensor, name);
      if (!table.add(name, kind.dtype, kind.shape, offset).is_new) {
        faults.add(file,
                   "tensor {} is named twice; the pack's index is damaged: pack the model "
                   "again",
                   shown(name));
        sound = false;
      }
      offset += bytes_of(kind);
    }
  }
  return sound;
}

std::array<std::byte, kPartHeaderBytes> part_header(std::uint64_t identity, std::size_t part,
                                                    std::size_t parts, std::uint64_t data_bytes) {
  PartHead head{};
  std::copy(kPartMagic.begin(), kPartMagic.end(), head.magic);
  head.version = kPartVersion;
  head.part = static_cast<std::uint32_t>(part);
  head.parts = static_cast<std::uint32_t>(parts);
  head.identity = identity;
  head.data_bytes = data_bytes;
  std::array<std::byte, kPartHeaderBytes> bytes{};
  std::memcpy(bytes.data(), &head, sizeof(head));
  const std::uint64_t hash = checksum_of(std::span(bytes).first(sizeof(head)));
  std::memcpy(bytes.data() + sizeof(head), &hash, sizeof(hash));
  return bytes;
}

}  // namespace sluice::store
