#include "model/blueprint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "base/size.h"

namespace sluice::model {
namespace {

std::uint64_t hash_of(std::string_view name) { return std::hash<std::string_view>{}(name); }

void sort_and_join(std::vector<io::Extent>& extents) {
  std::sort(extents.begin(), extents.end(), [](const io::Extent& a, const io::Extent& b) {
    return std::tie(a.file, a.offset) < std::tie(b.file, b.offset);
  });
  std::vector<io::Extent> joined;
  for (const io::Extent& extent : extents) {
    if (!joined.empty() && joined.back().file == extent.file &&
        joined.back().offset + joined.back().length == extent.offset) {
      joined.back().length += extent.length;
    } else {
      joined.push_back(extent);
    }
  }
  extents = std::move(joined);
}

}  // namespace

std::string_view name_of(TensorClass tensor_class) {
  switch (tensor_class) {
    case TensorClass::experts:
      return "routed experts";
    case TensorClass::trunk:
      return "layer trunk";
    case TensorClass::embedding:
      return "embedding";
    case TensorClass::head:
      return "output head";
    case TensorClass::final_norms:
      return "final norms";
    case TensorClass::left_out:
      return "left out";
  }
  return "?";
}

std::uint64_t TrunkBlock::bytes() const {
  std::uint64_t sum = 0;
  for (const io::Extent& extent : extents) sum += extent.length;
  return sum;
}

std::uint64_t Blueprint::memory_bytes() const {
  std::uint64_t sum =
      blocks.matrices.size() * sizeof(weights::MatrixBlock) + vectors.size() * sizeof(VectorSource);
  for (const auto& layer : blocks.expert_layers) {
    sum += layer.experts.size() * sizeof(weights::ExpertPlace);
  }
  return sum;
}

BlueprintBuilder::BlueprintBuilder(TensorSource& tensors, std::size_t layers, std::size_t top_k)
    : tensors_(tensors) {
  blueprint_.blocks.expert_layers.resize(layers);
  blueprint_.expert_weights.resize(layers);
  blueprint_.blocks.top_k = top_k;
}

void BlueprintBuilder::section(TensorClass tensor_class, int layer) {
  class_ = tensor_class;
  layer_ = layer;
  if (tensor_class != TensorClass::experts) {
    blueprint_.trunk_blocks.push_back({tensor_class, layer, {}});
  }
}

std::optional<SourceTensor> BlueprintBuilder::find(const std::string& name, const Wanted& wanted) {
  const auto found = tensors_.find(name, wanted);
  if (found) {
    note_use(name, *found);
  } else {
    faults_.push_back(fmt::format("tensor {}: missing; the model is incomplete", name));
  }
  return found;
}

void BlueprintBuilder::note_use(const std::string& name, const SourceTensor& found) {
  used_.push_back(hash_of(name));
  ClassTotal& total = blueprint_.totals[static_cast<std::size_t>(class_)];
  ++total.tensors;
  total.bytes += found.extent.length;
  if (class_ != TensorClass::experts) {
    blueprint_.trunk_blocks.back().extents.push_back(found.extent);
  }
}

std::optional<kernels::WeightFormat> plain_format_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return kernels::WeightFormat::f32;
    case DType::f16:
      return kernels::WeightFormat::f16;
    case DType::bf16:
      return kernels::WeightFormat::bf16;
    default:
      return std::nullopt;
  }
}

std::optional<kernels::WeightFormat> BlueprintBuilder::plain_format(const std::string& name,
                                                                    DType dtype) {
  const auto format = plain_format_of(dtype);
  if (!format) {
    faults_.push_back(
        fmt::format("tensor {}: type {} where F32, F16 or BF16 is expected", name, name_of(dtype)));
  }
  return format;
}

/// The scales of a matrix of the trunk are few: they are kept in memory with the vectors.
Vector BlueprintBuilder::find_f8_scales(const Matrix& matrix, const std::string& name) {
  check_groups(name, matrix.columns, 32, "F8_E4M3");
  return vector(name + "_scale_inv",
                kernels::f8_blocks(matrix.rows) * kernels::f8_blocks(matrix.columns));
}

void BlueprintBuilder::check_groups(const std::string& name, std::size_t columns, std::size_t group,
                                    std::string_view what) {
  if (columns % group == 0) return;
  faults_.push_back(fmt::format("tensor {}: {} columns, but {} needs a multiple of {}", name,
                                columns, what, group));
}

/// The format of a matrix: plain, FP8, or one of GGUF's blocks.
std::optional<kernels::WeightFormat> BlueprintBuilder::format_of(const std::string& name,
                                                                 DType dtype) {
  using kernels::WeightFormat;
  switch (dtype) {
    case DType::f8_e4m3:
      return WeightFormat::f8_e4m3;
    case DType::q4_0:
      return WeightFormat::q4_0;
    case DType::q4_1:
      return WeightFormat::q4_1;
    case DType::q5_0:
      return WeightFormat::q5_0;
    case DType::q5_1:
      return WeightFormat::q5_1;
    case DType::q8_0:
      return WeightFormat::q8_0;
    case DType::q2_k:
      return WeightFormat::q2_k;
    case DType::q3_k:
      return WeightFormat::q3_k;
    case DType::q4_k:
      return WeightFormat::q4_k;
    case DType::q5_k:
      return WeightFormat::q5_k;
    case DType::q6_k:
      return WeightFormat::q6_k;
    case DType::iq4_nl:
      return WeightFormat::iq4_nl;
    case DType::iq4_xs:
      return WeightFormat::iq4_xs;
    case DType::mxfp4:
      return WeightFormat::mxfp4_blocks;
    default:
      return plain_format(name, dtype);
  }
}

void BlueprintBuilder::check_shape(const std::string& name, const store::Shape& found,
                                   std::span<const std::uint64_t> expected) {
  if (std::ranges::equal(found.sizes(), expected)) return;
  faults_.push_back(fmt::format("tensor {}: shape {}, but {} makes it [{}]", name,
                                store::to_string(found), tensors_.described_by(),
                                fmt::join(expected, ", ")));
}

Matrix BlueprintBuilder::matrix(const std::string& name, std::size_t rows, std::size_t columns,
                                std::size_t rows_together) {
  return find_matrix(name, std::array<std::uint64_t, 2>{rows, columns}, rows_together);
}

Matrix BlueprintBuilder::stacked(const std::string& name, std::size_t count, std::size_t rows,
                                 std::size_t columns) {
  return find_matrix(name, std::array<std::uint64_t, 3>{count, rows, columns}, rows);
}

/// The last size of the shape is the columns.
Matrix BlueprintBuilder::find_matrix(const std::string& name, std::span<const std::uint64_t> shape,
                                     std::size_t rows_together) {
  const auto found = find(name, {shape});
  if (!found) return {};
  const auto format = format_of(name, found->dtype);
  const std::size_t before = faults_.size();
  check_shape(name, found->shape, shape);
  if (!format || faults_.size() != before) return {};
  const std::uint64_t columns = shape.back();
  std::uint64_t rows = 1;
  for (const std::uint64_t size : shape.first(shape.size() - 1)) rows *= size;
  auto& blocks = blueprint_.blocks;
  if (class_ == TensorClass::head && !in_head_) {
    in_head_ = true;
    blocks.first_head_matrix = static_cast<weights::MatrixId>(blocks.matrices.size());
  }
  if (!in_head_) blueprint_.trunk_weights += rows * columns;
  const auto id = static_cast<weights::MatrixId>(blocks.matrices.size());
  // Both groupings hold, or a tile would be read with rows around it that are only checked.
  const std::uint64_t together =
      std::lcm(rows_together, std::min<std::uint64_t>(rows, found->rows_together));
  blocks.matrices.push_back({name, found->extent, rows, std::min<std::uint64_t>(rows, together)});
  Matrix matrix = {id, *format, rows, columns};
  if (*format == kernels::WeightFormat::f8_e4m3) matrix.scales = find_f8_scales(matrix, name);
  return matrix;
}

Matrix BlueprintBuilder::projection(const std::string& name, std::size_t rows,
                                    std::size_t columns) {
  const std::size_t before = blueprint_.blocks.matrices.size();
  const Matrix matrix = this->matrix(name, rows, columns);
  if (blueprint_.blocks.matrices.size() > before) blueprint_.projections.push_back(matrix);
  return matrix;
}

Vector BlueprintBuilder::vector(const std::string& name, std::size_t count, bool padded) {
  const std::array<std::uint64_t, 1> expected = {count};
  const auto found = find(name, {expected, padded});
  if (!found) return {};
  const auto format = plain_format(name, found->dtype);
  if (!format) return {};
  const std::uint64_t stored = found->extent.length / bytes_of(found->dtype);
  if (stored < count || (stored > count && !padded)) {
    faults_.push_back(fmt::format("tensor {}: shape {} has {} elements, {}{} are expected", name,
                                  store::to_string(found->shape), stored, padded ? "at least " : "",
                                  count));
    return {};
  }
  const Vector vector = {blueprint_.vector_floats, count};
  // With its padding: a pack's checksum is of all of it.
  blueprint_.vectors.push_back({name, found->extent, *format, vector});
  blueprint_.vector_floats += round_up(count, 16);
  return vector;
}

EmbeddingTable BlueprintBuilder::embedding(const std::string& name, std::size_t rows,
                                           std::size_t columns, bool tied) {
  const std::array<std::uint64_t, 2> expected = {rows, columns};
  const Wanted wanted = {expected};
  const auto found = tied ? tensors_.find(name, wanted) : find(name, wanted);
  if (!found) return {};  // a tied one will be missed as the head
  if (!tied) check_shape(name, found->shape, expected);
  // Its rows are read one by one, without scales that lie apart.
  const auto format = found->dtype == DType::f8_e4m3 ? plain_format(name, found->dtype)
                                                     : format_of(name, found->dtype);
  if (!format) return {};
  blueprint_.embedding = {found->extent, *format, rows, columns};
  return blueprint_.embedding;
}

void BlueprintBuilder::leave_out(std::string_view prefix) {
  left_out_prefixes_.emplace_back(prefix);
}

/// Every tensor is used or left out by name; any other is a fault, not a thing to overlook.
void BlueprintBuilder::account_for_the_rest() {
  std::sort(used_.begin(), used_.end());
  std::map<std::string, ClassTotal> left_out;
  tensors_.for_each([&](std::string_view name, std::uint64_t bytes) {
    if (std::binary_search(used_.begin(), used_.end(), hash_of(name))) return;
    for (const std::string& prefix : left_out_prefixes_) {
      if (!name.starts_with(prefix)) continue;
      for (ClassTotal* total :
           {&left_out[prefix],
            &blueprint_.totals[static_cast<std::size_t>(TensorClass::left_out)]}) {
        ++total->tensors;
        total->bytes += bytes;
      }
      return;
    }
    faults_.push_back(
        fmt::format("tensor {}: not part of this architecture; a model that has it "
                    "would be computed wrongly without it",
                    name));
  });
  for (const auto& [prefix, total] : left_out) {
    blueprint_.left_out.push_back(
        fmt::format("{}* ({} tensors, {})", prefix, total.tensors, format_size(total.bytes)));
  }
}

Result<Blueprint> BlueprintBuilder::finish() {
  if (faults_.empty()) account_for_the_rest();
  if (!faults_.empty()) {
    const std::size_t shown = std::min(faults_.size(), kMostFaults);
    std::string list = fmt::format(
        "{}\n{}", tensors_.place().string(),
        fmt::join(faults_.begin(), faults_.begin() + static_cast<std::ptrdiff_t>(shown), "\n"));
    if (faults_.size() > shown) list += fmt::format("\n... and {} more", faults_.size() - shown);
    return fail(ErrorKind::model_files, "{}", list);
  }
  if (!in_head_) {
    blueprint_.blocks.first_head_matrix =
        static_cast<weights::MatrixId>(blueprint_.blocks.matrices.size());
  }
  for (TrunkBlock& block : blueprint_.trunk_blocks) sort_and_join(block.extents);
  std::erase_if(blueprint_.trunk_blocks,
                [](const TrunkBlock& block) { return block.extents.empty(); });
  return std::move(blueprint_);
}

}  // namespace sluice::model
