#include "store/pack_index.h"

#include <algorithm>
#include <cstring>

#include "base/size.h"
#include "store/checkpoint.h"
#include "store/checksum.h"
#include "store/header.h"
#include "store/pack_records.h"

namespace sluice::store {
namespace {

constexpr std::string_view kPartMagic = "SLUICEPD";
constexpr std::uint32_t kPartVersion = 1;

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
  PackIndexHead head{};
  std::copy(kPackIndexMagic.begin(), kPackIndexMagic.end(), head.magic);
  head.version = kPackIndexVersion;
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
  std::vector<PackCompanionRecord> companions;
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
  std::vector<PackKindRecord> kinds;
  for (const PackKind& kind : index.kinds) {
    PackKindRecord record{static_cast<std::uint8_t>(kind.dtype), kind.shape.rank, 0, 0, {}};
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
