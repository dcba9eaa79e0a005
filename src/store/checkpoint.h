// The tensors of a model on disk: names -> dtype, shape, extents.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/function_ref.h"
#include "base/result.h"

namespace sluice::store {

class Metadata;

inline constexpr std::size_t kMaxDimensions = 8;

/// Dimensions of a tensor, outermost first. Rank 0 is a scalar.
struct Shape {
  std::array<std::uint64_t, kMaxDimensions> size{};
  std::uint8_t rank = 0;
  std::span<const std::uint64_t> sizes() const { return {size.data(), rank}; }
  bool operator==(const Shape&) const = default;
};

/// "[3072, 1792]"
std::string to_string(const Shape& shape);

/// Where one tensor lies. Its bytes are row-major and little-endian.
struct Tensor {
  DType dtype = DType::u8;
  Shape shape;
  std::uint32_t file = 0;    ///< index into Checkpoint::files()
  std::uint64_t offset = 0;  ///< from the start of the file
  std::uint64_t bytes = 0;
  std::uint64_t rows_together = 1;  ///< of a pack: rows that share a checksum
};

class Pack;

struct ShardFile {
  std::filesystem::path path;  ///< as found, symbolic links not resolved
  /// Where the same file was found again, each compared with `path` by size and header.
  std::vector<std::filesystem::path> copies = {};
  std::uint64_t size = 0;
};

/// An opened model: every header read and checked, no weight read.
class Checkpoint {
 public:
  /// `path` is a folder, an index file or any of the model's weight files; or a pack's folder or
  /// index. All faults of all files are listed in the one error (ErrorKind::model_files), each with
  /// file, tensor, expected, found. `further` folders are searched for weight files too, after the
  /// one that `path` is in: one that is found there only is read there, one that is found again is
  /// a copy (a mirror, full or partial). Of a pack they are searched for its parts, first of all.
  static Result<Checkpoint> open(const std::filesystem::path& path,
                                 const std::vector<std::filesystem::path>& further = {});

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  std::optional<Tensor> find(std::string_view name) const;
  std::uint64_t tensor_count() const;
  /// Calls visit(name, tensor) for every tensor, file by file, in the order of the headers.
  void for_each(FunctionRef<void(std::string_view name, const Tensor& tensor)> visit) const;

  const std::vector<ShardFile>& files() const;
  /// What a GGUF model says about itself; null for other files.
  const Metadata* metadata() const;
  /// The pack, if the model is one: files() are its parts, and tensors lie in its stream (file 0).
  const std::shared_ptr<const Pack>& pack() const;
  /// The folder with config.json and the tokenizer.
  const std::filesystem::path& folder() const;
  /// Remarks for the user: files in the folder that are not part of the model, and the like.
  const std::vector<std::string>& notes() const;
  /// Sum of the tensors' bytes.
  std::uint64_t payload_bytes() const;
  /// Memory that this directory of names holds.
  std::uint64_t memory_bytes() const;

 private:
  class Directory;
  static Result<std::unique_ptr<Directory>> read(const std::filesystem::path& path,
                                                 const std::vector<std::filesystem::path>& further);
  static Result<std::unique_ptr<Directory>> read_pack(
      const std::filesystem::path& index, const std::vector<std::filesystem::path>& further);
  explicit Checkpoint(std::unique_ptr<Directory> directory);
  std::unique_ptr<Directory> directory_;
};

/// The folder with config.json and the tokenizer of the model at `path`: a folder (also a Hugging
/// Face cache's), an index or a weight file. Only names are looked at; the weights may be missing.
/// Fails with ErrorKind::model_files when there is nothing at the path that a model could be.
Result<std::filesystem::path> folder_of_model(const std::filesystem::path& path);

/// Whether a file of this name holds weights: safetensors, GGUF, or a part of a pack.
bool is_weights_name(std::string_view name);

/// Reads a small text file (config.json and the like) of at most `limit` bytes. Fails with
/// ErrorKind::model_files when it is missing, empty, larger, or a Git-LFS pointer.
Result<std::string> read_text(const std::filesystem::path& path, std::uint64_t limit);

}  // namespace sluice::store
