// Where an architecture's tensors come from: a checkpoint on a drive, or only a release's habits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/function_ref.h"
#include "base/result.h"
#include "io/reader.h"
#include "store/checkpoint.h"

namespace sluice::model {

/// A tensor with its place: in the reader's files, not the checkpoint's.
struct SourceTensor {
  DType dtype = DType::u8;
  store::Shape shape;
  io::Extent extent;
  std::uint64_t rows_together = 1;  ///< rows that must be read together to be checked
};

/// What an architecture expects of a tensor. A checkpoint says what is there whatever was expected;
/// a source without files has nothing else to go by.
struct Wanted {
  std::span<const std::uint64_t> shape;
  bool padded = false;  ///< vectors: the tensor may have more elements than are used
  std::optional<DType> dtype = std::nullopt;  ///< where only one will do
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;

  /// For messages: the model's folder or file.
  virtual std::filesystem::path place() const = 0;
  /// For messages: what tells the shapes of its tensors.
  virtual std::string_view described_by() const { return "config.json"; }
  /// The type of a tensor, nothing when there is none; for what tells one form from another.
  virtual std::optional<DType> type_of(const std::string& name) const = 0;
  virtual std::optional<SourceTensor> find(const std::string& name, const Wanted& wanted) = 0;
  /// Calls visit(name, bytes) for every tensor that is there.
  virtual void for_each(FunctionRef<void(std::string_view name, std::uint64_t bytes)> visit) = 0;
};

/// The tensors of an opened checkpoint.
class CheckpointTensors final : public TensorSource {
 public:
  /// `files`: the reader's ids of checkpoint.files(), in that order.
  CheckpointTensors(const store::Checkpoint& checkpoint, std::span<const io::FileId> files)
      : checkpoint_(checkpoint), files_(files.begin(), files.end()) {}

  std::filesystem::path place() const override { return checkpoint_.folder(); }
  std::string_view described_by() const override {
    return checkpoint_.metadata() != nullptr ? "the file's metadata" : "config.json";
  }
  std::optional<DType> type_of(const std::string& name) const override;
  std::optional<SourceTensor> find(const std::string& name, const Wanted& wanted) override;
  void for_each(FunctionRef<void(std::string_view name, std::uint64_t bytes)> visit) override;

 private:
  const store::Checkpoint& checkpoint_;
  std::vector<io::FileId> files_;
};

/// How a release stores its tensors, as far as its config.json does not say.
struct ReleaseHabits {
  DType plain = DType::bf16;  ///< of all that is not listed here
  struct Suffix {
    std::string_view suffix;
    DType dtype;
  };
  std::span<const Suffix> suffixes;  ///< names that end so are of that type
  std::uint64_t padding = 1;  ///< padded vectors are stored with a multiple of so many elements
  std::optional<DType> packed_experts;  ///< routed experts are packed, in numbers of this type
};

/// Tensors that are on no drive: each is just as wanted, stored as the release would, one after the
/// other in the order in which they are asked for. Nothing can be read of them; sizes and counts
/// are true.
class ReleaseTensors final : public TensorSource {
 public:
  ReleaseTensors(std::filesystem::path place, const ReleaseHabits& habits)
      : place_(std::move(place)), habits_(habits) {}

  std::filesystem::path place() const override { return place_; }
  std::optional<DType> type_of(const std::string& name) const override;
  std::optional<SourceTensor> find(const std::string& name, const Wanted& wanted) override;
  /// Nothing: what was not asked for is not known.
  void for_each(FunctionRef<void(std::string_view name, std::uint64_t bytes)> visit) override;

  /// ErrorKind::model_files when the tensors so far are larger than any model could be.
  Status check_size() const;

 private:
  std::filesystem::path place_;
  ReleaseHabits habits_;
  std::uint64_t end_ = 0;  // of the tensors so far
  double bytes_ = 0;       // the same as a float: sizes beyond all reason do not wrap around
};

}  // namespace sluice::model
