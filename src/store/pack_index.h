// The index of a pack (docs/formats.md): what lies in its stream, and a checksum for every piece.
// Hostile until decoded. Offsets are not in it: blocks follow each other, so none can overlap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "store/checkpoint.h"
#include "store/faults.h"
#include "store/tensor_table.h"

namespace sluice::store {

inline constexpr const char* kPackIndexName = "sluice-pack.index";
inline constexpr const char* kPackJournalName = "sluice-pack.journal";
/// "sluice-pack-2-of-3.data", for part 1 of 3.
std::string pack_part_name(std::size_t part, std::size_t parts);

/// Blocks begin at multiples of this in the stream; zeros fill the room before the next one.
inline constexpr std::uint64_t kPackAlignment = 4096;
/// Each part's file begins with a header of this size.
inline constexpr std::uint64_t kPartHeaderBytes = 4096;
/// No pack is larger; sums of sizes below it cannot wrap around.
inline constexpr std::uint64_t kMostPackBytes = std::uint64_t{1} << 60;
/// Of a tensor's name without its numbers. Each tensor's name is joined from its pattern when it is
/// read, so a long one would cost as many times its length as there are tensors.
inline constexpr std::size_t kMostPatternBytes = 1024;
/// K3's index has 20 MB.
inline constexpr std::uint64_t kMostPackIndexBytes = std::uint64_t{512} << 20;

struct PackKind {
  DType dtype = DType::u8;
  Shape shape;
};

/// A tensor: its name taken apart (NameParts), and its type and shape.
struct PackTensor {
  std::uint32_t pattern = 0;
  std::uint32_t kind = 0;
  std::array<std::uint32_t, NameParts::kNumbers> numbers{};
};

/// Tensors that lie end to end: an expert's, or one tensor alone. Checksums are of units: all of
/// the block when `unit_rows` is 0, else so many rows (of the first dimension) of the one tensor.
struct PackBlock {
  std::uint32_t tensors = 0;
  std::uint32_t unit_rows = 0;
  std::int32_t layer = -1;   ///< for messages; -1: none
  std::int32_t expert = -1;  ///< for messages; -1: none
};

/// A small file beside the weights (config.json, the tokenizer, ...).
struct PackCompanion {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;  ///< XXH3-64 of all of it
  bool operator==(const PackCompanion&) const = default;
};

/// A plain name that a companion may have: of no folder, no weights and nothing hidden.
bool is_companion_name(std::string_view name);

struct PackIndex {
  std::uint64_t identity = 0;  ///< the parts' headers have the same
  std::uint64_t chunk_bytes = 0;
  std::vector<std::uint8_t> deal;
  std::vector<std::string> folders;  ///< by part: where it was written
  std::vector<std::string> patterns;
  std::vector<PackKind> kinds;
  std::vector<PackTensor> tensors;  ///< in the order of the blocks
  std::vector<PackBlock> blocks;
  std::vector<std::uint64_t> checksums;   ///< XXH3-64 of each unit, in the order of the stream
  std::vector<PackCompanion> companions;  ///< by ascending name

  void name(const PackTensor& tensor, std::string& to) const {
    NameParts::join(patterns[tensor.pattern], tensor.numbers, to);
  }
};

/// Where a block lies.
struct BlockSpan {
  std::uint64_t offset = 0;  ///< in the stream
  std::uint64_t bytes = 0;
  std::uint64_t unit_bytes = 0;  ///< all units but the last; 0 for a block of no bytes
  std::uint64_t units() const { return bytes == 0 ? 0 : (bytes + unit_bytes - 1) / unit_bytes; }
};

/// Walks the blocks of a sound index in the order of the stream.
class BlockWalk {
 public:
  explicit BlockWalk(const PackIndex& index) : index_(index) {}
  bool done() const { return block_ == index_.blocks.size(); }
  std::size_t block() const { return block_; }
  std::size_t first_tensor() const { return tensor_; }
  std::uint64_t first_unit() const { return unit_; }
  /// Of the block at hand.
  BlockSpan span() const;
  void next();
  /// Where the block at hand begins; after the last: the length of the stream.
  std::uint64_t offset() const { return offset_; }

 private:
  const PackIndex& index_;
  std::size_t block_ = 0;
  std::size_t tensor_ = 0;
  std::uint64_t unit_ = 0;
  std::uint64_t offset_ = 0;
};

std::uint64_t bytes_of(const PackKind& kind);
/// Length of the stream, the zeros after the last block included.
std::uint64_t stream_bytes(const PackIndex& index);
/// Units of all blocks.
std::uint64_t unit_count(const PackIndex& index);

/// Collects names and kinds while an index is made.
class PackTensorMaker {
 public:
  explicit PackTensorMaker(PackIndex& index) : index_(index) {}
  PackTensor make(std::string_view name, DType dtype, const Shape& shape);

 private:
  PackIndex& index_;
  NameParts parts_;
  std::unordered_map<std::string, std::uint32_t> patterns_;
  std::unordered_map<std::string, std::uint32_t> kinds_;
};

std::vector<std::byte> encode_pack_index(const PackIndex& index);

/// Decodes and checks everything, or returns nothing and adds what is wrong to `faults`. Memory
/// is taken in proportion to `bytes`, whatever they say. `file` is for messages.
std::optional<PackIndex> decode_pack_index(std::span<const std::byte> bytes, std::string_view file,
                                           FaultList& faults);

/// Enters the tensors, with their offsets in the stream, as those of the table's next file. Fails
/// when a name is there twice.
bool enter_pack_tensors(const PackIndex& index, std::string_view file, TensorTable& table,
                        FaultList& faults);

/// The header of a part's file.
std::array<std::byte, kPartHeaderBytes> part_header(std::uint64_t identity, std::size_t part,
                                                    std::size_t parts, std::uint64_t data_bytes);

}  // namespace sluice::store
