// How BlueprintBuilder finds routed experts: tensors of each, or tensors that hold all of a layer.
#include <fmt/format.h>

#include "model/blueprint.h"

namespace sluice::model {

using kernels::WeightFormat;

/// A tensor of one expert, or its share of a tensor of all.
struct BlueprintBuilder::ExpertPart {
  std::string name;  ///< of the tensor of all experts, or after the expert's id
  std::vector<std::uint64_t> shape;
  DType dtype;

  std::uint64_t bytes() const {
    std::uint64_t elements = 1;
    for (const std::uint64_t size : shape) elements *= size;
    return elements / elements_of(dtype) * bytes_of(dtype);
  }
};

/// How a matrix is called: before its "weight", "weight_packed" and so on, and whole, of the first
/// expert.
struct BlueprintBuilder::ExpertMatrixNames {
  std::string part;
  std::string first;
};

ExpertMatrix BlueprintBuilder::expert_matrix(const ExpertMatrixNames& names, std::size_t rows,
                                             std::size_t columns, bool bias,
                                             std::vector<ExpertPart>& parts) {
  ExpertMatrix matrix;
  const auto part = [&](std::string_view what, std::vector<std::uint64_t> shape, DType dtype) {
    parts.push_back({fmt::format("{}{}", names.part, what), std::move(shape), dtype});
    return parts.size() - 1;
  };
  const auto type = [&](std::string_view what) {
    return tensors_.type_of(fmt::format("{}{}", names.first, what));
  };
  const auto whole_groups = [&](std::size_t group, std::string_view of) {
    if (columns % group == 0) return;
    faults_.push_back(fmt::format("tensors {}*: {} columns, but {} needs a multiple of {}",
                                  names.first, columns, of, group));
  };
  if (type(".weight_packed")) {
    matrix.format = WeightFormat::mxfp4;
    whole_groups(32, "MXFP4");
    matrix.data = part(".weight_packed", {rows, columns / 2}, DType::u8);
    matrix.scales = part(".weight_scale", {rows, columns / 32}, DType::u8);
  } else {
    const DType dtype = type(".weight").value_or(DType::bf16);
    matrix.format = format_of(names.first + ".weight", dtype).value_or(WeightFormat::f32);
    matrix.data = part(".weight", {rows, columns}, dtype);
  }
  if (bias) {
    const DType dtype = type(".bias").value_or(DType::f32);
    matrix.bias_format = plain_format(names.first + ".bias", dtype).value_or(WeightFormat::f32);
    matrix.bias = part(".bias", {rows}, dtype);
  }
  return matrix;
}

std::vector<BlueprintBuilder::ExpertPart> BlueprintBuilder::expert_parts(
    const WantedExperts& wanted, ExpertLayout& layout) {
  std::vector<ExpertPart> parts;
  const bool separate = wanted.form == WantedExperts::Form::separate;
  const auto names = [&](const std::string& matrix) {
    return ExpertMatrixNames{separate ? matrix : wanted.prefix + matrix,
                             fmt::format("{}{}{}", wanted.prefix, separate ? "0." : "", matrix)};
  };
  // Gate, down, up: as K3's release has them, so that an expert is one read.
  layout.gate = expert_matrix(names(wanted.gate), wanted.inner, wanted.width, wanted.bias, parts);
  layout.down = expert_matrix(names(wanted.down), wanted.width, wanted.inner, wanted.bias, parts);
  layout.up = expert_matrix(names(wanted.up), wanted.inner, wanted.width, wanted.bias, parts);
  return parts;
}

std::optional<SourceTensor> BlueprintBuilder::find_part(const std::string& name,
                                                        const ExpertPart& part,
                                                        std::span<const std::uint64_t> shape) {
  const auto found = find(name, {.shape = shape, .dtype = part.dtype});
  if (!found) return std::nullopt;
  if (found->dtype != part.dtype) {
    faults_.push_back(fmt::format("tensor {}: type {} where {} is expected, as the others have it",
                                  name, name_of(found->dtype), name_of(part.dtype)));
  }
  check_shape(name, found->shape, shape);
  return found;
}

ExpertLayout BlueprintBuilder::experts(const WantedExperts& wanted) {
  const TensorClass outside = class_;
  class_ = TensorClass::experts;
  ExpertLayout layout;
  const std::vector<ExpertPart> parts = expert_parts(wanted, layout);
  auto& layer = blueprint_.blocks.expert_layers[static_cast<std::size_t>(layer_)];
  layer.parts = parts.size();
  blueprint_.expert_weights[static_cast<std::size_t>(layer_)] = 3 * wanted.inner * wanted.width;
  for (std::size_t i = 0; i < parts.size(); ++i) layer.part_bytes[i] = parts[i].bytes();
  layer.experts.resize(faults_.size() <= kMostFaults ? wanted.count : 0);
  const auto place = [&](std::size_t expert, std::size_t part, const io::Extent& at) {
    layer.experts[expert].file[part] = at.file;
    layer.experts[expert].offset[part] = at.offset;
  };
  if (wanted.form != WantedExperts::Form::separate) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      std::vector<std::uint64_t> shape = {wanted.count};
      shape.insert(shape.end(), parts[i].shape.begin(), parts[i].shape.end());
      const auto found = find_part(parts[i].name, parts[i], shape);
      if (!found) continue;
      for (std::size_t expert = 0; expert < layer.experts.size(); ++expert) {
        const std::uint64_t offset = found->extent.offset + expert * layer.part_bytes[i];
        place(expert, i, {found->extent.file, offset, layer.part_bytes[i]});
      }
    }
  } else {
    for (std::size_t expert = 0; expert < layer.experts.size(); ++expert) {
      if (faults_.size() > kMostFaults) break;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::string name = fmt::format("{}{}.{}", wanted.prefix, expert, parts[i].name);
        const auto found = find_part(name, parts[i], parts[i].shape);
        if (found) place(expert, i, found->extent);
      }
    }
  }
  class_ = outside;
  return layout;
}

}  // namespace sluice::model
