// What an architecture needs from a checkpoint, found and checked: the bridge between names on
// disk and the blocks that the weights layer moves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/matmul.h"
#include "model/expert_layout.h"
#include "model/tensor_source.h"
#include "weights/blocks.h"

namespace sluice::model {

/// The format of numbers that are stored one by one: float32, float16 or bfloat16.
std::optional<kernels::WeightFormat> plain_format_of(DType dtype);

/// A small tensor, resident as float32: a piece of the table of vectors.
struct Vector {
  std::size_t offset = 0;
  std::size_t count = 0;
};

/// A matrix of the trunk or head: y = W x, stored [rows, columns].
struct Matrix {
  weights::MatrixId id = 0;
  kernels::WeightFormat format = kernels::WeightFormat::f32;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::optional<Vector> scales = std::nullopt;  ///< of f8_e4m3
};

/// Where a vector comes from. The first `count` elements of the tensor are taken.
struct VectorSource {
  std::string name;
  io::Extent extent;
  kernels::WeightFormat format = kernels::WeightFormat::f32;
  Vector vector;
};

/// The embedding: rows are read one by one as tokens want them.
struct EmbeddingTable {
  io::Extent extent;
  kernels::WeightFormat format = kernels::WeightFormat::f32;
  std::size_t rows = 0;
  std::size_t columns = 0;
};

/// Classes of tensors, for totals.
enum class TensorClass : std::uint8_t { experts, trunk, embedding, head, final_norms, left_out };
inline constexpr std::size_t kTensorClasses = 6;
std::string_view name_of(TensorClass tensor_class);

struct ClassTotal {
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
};

/// Everything but the experts of one layer, or one tensor outside the layers, as it lies on disk.
struct TrunkBlock {
  TensorClass tensor_class = TensorClass::trunk;
  int layer = -1;                   ///< -1 outside the layers
  std::vector<io::Extent> extents;  ///< touching ones joined, in the order of the files
  std::uint64_t bytes() const;
};

struct Blueprint {
  weights::Blocks blocks;
  std::vector<Matrix> projections;  ///< those that adapters may change, in the order of use
  std::vector<VectorSource> vectors;
  std::size_t vector_floats = 0;  ///< size of the table of vectors
  EmbeddingTable embedding;
  std::uint64_t trunk_weights = 0;            ///< numbers in the matrices of the layers
  std::vector<std::uint64_t> expert_weights;  ///< numbers in the matrices of an expert, by layer
  bool experts_share_tensors = false;         ///< an expert is an extent inside tensors of all
  std::array<ClassTotal, kTensorClasses> totals{};
  std::vector<TrunkBlock> trunk_blocks;
  std::vector<std::string> left_out;  ///< "vision_tower.* (165 tensors, 802 MB)": printed by info

  std::uint64_t memory_bytes() const;
};

/// Collects what an architecture asks for. Faults (a tensor missing, of another shape or type) are
/// collected too, and all listed by finish().
class BlueprintBuilder {
 public:
  /// `tensors` outlives the builder.
  BlueprintBuilder(TensorSource& tensors, std::size_t layers, std::size_t top_k);

  /// Whether there is a tensor of this name; for names that tell one form from another.
  bool has(const std::string& name) const { return tensors_.type_of(name).has_value(); }

  /// What follows belongs to this layer (-1: none) and class.
  void section(TensorClass tensor_class, int layer);

  /// Matrices must be asked for in the order in which a pass uses them; those asked for in the
  /// section `head` come last.
  Matrix matrix(const std::string& name, std::size_t rows, std::size_t columns,
                std::size_t rows_together = 1);

  /// A tensor [count, rows, columns] as a matrix of count * rows rows, read in tiles of whole
  /// groups of `rows`.
  Matrix stacked(const std::string& name, std::size_t count, std::size_t rows, std::size_t columns);

  /// A matrix that adapters may change: a pass multiplies the whole of it with all its rows
  /// (Executor::multiply()).
  Matrix projection(const std::string& name, std::size_t rows, std::size_t columns);

  /// A tensor of `count` elements in all, of any shape. With `padded`, of at least `count`.
  Vector vector(const std::string& name, std::size_t count, bool padded = false);

  /// With `tied`, the same tensor is asked for as the output head, whose class has its bytes.
  EmbeddingTable embedding(const std::string& name, std::size_t rows, std::size_t columns,
                           bool tied = false);

  /// The routed experts of the section's layer. What the first one's tensors are tells how all of
  /// them are stored.
  ExpertLayout experts(const WantedExperts& wanted);

  /// Something is not as the architecture can have it.
  void fault(std::string what) { faults_.push_back(std::move(what)); }

  /// Tensors whose names start so are left out, and listed.
  void leave_out(std::string_view prefix);

  /// Fails with ErrorKind::model_files, listing all faults, tensors that nobody asked for included.
  Result<Blueprint> finish();

 private:
  // More faults than this tell nobody more.
  static constexpr std::size_t kMostFaults = 50;

  std::optional<SourceTensor> find(const std::string& name, const Wanted& wanted);
  Matrix find_matrix(const std::string& name, std::span<const std::uint64_t> shape,
                     std::size_t rows_together);
  std::optional<kernels::WeightFormat> format_of(const std::string& name, DType dtype);
  std::optional<kernels::WeightFormat> plain_format(const std::string& name, DType dtype);
  Vector find_f8_scales(const Matrix& matrix, const std::string& name);
  void check_groups(const std::string& name, std::size_t columns, std::size_t group,
                    std::string_view what);
  void check_shape(const std::string& name, const store::Shape& found,
                   std::span<const std::uint64_t> expected);
  void note_use(const std::string& name, const SourceTensor& found);
  void account_for_the_rest();

  // blueprint_experts.cc
  struct ExpertPart;
  struct ExpertMatrixNames;
  ExpertMatrix expert_matrix(const ExpertMatrixNames& names, std::size_t rows, std::size_t columns,
                             bool bias, std::vector<ExpertPart>& parts);
  std::vector<ExpertPart> expert_parts(const WantedExperts& wanted, ExpertLayout& layout);
  std::vector<ExpertPart> gpt_oss_parts(const WantedExperts& wanted, ExpertLayout& layout);
  void find_separate(const WantedExperts& wanted, std::span<const ExpertPart> parts,
                     const ExpertLayout& layout, weights::ExpertLayer& layer);
  void find_together(std::span<const ExpertPart> parts, weights::ExpertLayer& layer);
  void note_shapes(const WantedExperts& wanted, std::size_t expert, const ExpertLayout& layout);
  std::optional<SourceTensor> find_part(const std::string& name, const ExpertPart& part,
                                        std::span<const std::uint64_t> shape);

  TensorSource& tensors_;
  Blueprint blueprint_;
  TensorClass class_ = TensorClass::trunk;
  int layer_ = -1;
  bool in_head_ = false;
  std::vector<std::string> left_out_prefixes_;
  std::vector<std::uint64_t> used_;  // hashes of the names asked for
  std::vector<std::string> faults_;
};

}  // namespace sluice::model
