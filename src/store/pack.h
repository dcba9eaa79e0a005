// An opened pack: where its stream lies, and what its bytes must hash to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "io/reader.h"
#include "store/checkpoint.h"
#include "store/pack_index.h"
#include "store/pack_stripes.h"

namespace sluice::store {

/// Bytes of the stream that are not what was written.
struct PackFault {
  std::uint64_t offset = 0;  ///< in the stream
  std::uint64_t bytes = 0;
  std::string message;  ///< names block, file and offset
};

/// Immutable; about 75 bytes per block and 8 per unit.
class Pack {
 public:
  /// `index` is sound; `parts`: the files, by part.
  Pack(PackIndex index, std::vector<ShardFile> parts);

  const std::vector<ShardFile>& parts() const { return parts_; }
  std::uint64_t stream_bytes() const { return stream_bytes_; }
  std::size_t blocks() const { return blocks_.size(); }
  std::uint64_t identity() const { return identity_; }
  const std::vector<PackCompanion>& companions() const { return companions_; }
  const Stripes& stripes() const { return stripes_; }
  /// Where a block begins in the stream; for blocks(): the stream's end.
  std::uint64_t block_offset(std::size_t block) const;

  /// Like Stripes::for_each(), with offsets in the parts' files.
  void for_each_piece(std::uint64_t offset, std::uint64_t length,
                      FunctionRef<void(std::uint64_t at, const PartExtent&)> visit) const;

  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool operator==(const Range&) const = default;
  };
  /// The smallest range of whole units (and zeros between blocks) that holds this one.
  Range whole_units(Range range) const;

  /// Checks bytes at `offset` in the stream: whole units and zeros between blocks. Calls
  /// visit(fault) for each unit or gap that is not what was written.
  void check(std::uint64_t offset, std::span<const std::byte> bytes,
             FunctionRef<void(PackFault)> visit) const;

  /// Rows of the tensor that begins at `offset` in the stream which have a checksum together, more
  /// than any tensor has where it is all of them; 1 when it is not alone in its block.
  std::uint64_t rows_together(std::uint64_t offset) const;

  std::uint64_t memory_bytes() const;

 private:
  struct Block {
    BlockSpan span;
    std::uint64_t first_unit;
    std::int32_t layer;
    std::int32_t expert;
    std::uint32_t unit_rows;
    std::uint32_t name;  // of its only tensor, in names_; kNoName when it has several
  };
  static constexpr std::uint32_t kNoName = ~std::uint32_t{0};

  std::size_t block_at(std::uint64_t offset) const;
  PackFault unit_fault(const Block& block, std::uint64_t unit, std::uint64_t found) const;
  /// "FILE: 4096 bytes from offset 8192"
  std::string place(std::uint64_t offset, std::uint64_t bytes) const;
  std::string name_of(const Block& block, std::uint64_t unit) const;

  std::uint64_t identity_;
  Stripes stripes_;
  std::vector<ShardFile> parts_;
  std::uint64_t stream_bytes_;
  std::vector<Block> blocks_;
  std::vector<std::string> patterns_;
  std::vector<PackTensor> names_;  // to be joined with their patterns
  std::vector<std::uint64_t> checksums_;
  std::vector<PackCompanion> companions_;
};

/// What a path stands for, if it is a pack: a folder with an index in it, or the index itself.
/// ErrorKind::model_files for a folder with a pack that was begun and not finished.
Result<std::optional<std::filesystem::path>> find_pack_index(const std::filesystem::path& path);

/// Reads and decodes an index; nothing, and faults, when something is wrong with it.
std::optional<PackIndex> read_pack_index(const std::filesystem::path& index, FaultList& faults);

struct PackFiles {
  PackIndex index;
  std::vector<ShardFile> parts;
};
/// Reads the index and finds the parts: where they were written, beside the index, or in one of
/// `more_folders`. Sizes and headers are checked, no weight is read.
std::optional<PackFiles> open_pack(const std::filesystem::path& index_path,
                                   std::span<const std::filesystem::path> more_folders,
                                   FaultList& faults);

/// Opens the files of the checkpoint at `reader`, which becomes one that knows the pack if it is
/// one, with this `most_bounce`. Returns the reader's ids by Tensor::file.
Result<std::vector<io::FileId>> open_weights(const Checkpoint& checkpoint,
                                             std::unique_ptr<io::Reader>& reader,
                                             std::uint64_t most_bounce);

}  // namespace sluice::store
