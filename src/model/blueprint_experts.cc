// How BlueprintBuilder finds routed experts: tensors of each, or tensors that hold all of a layer.
#include <fmt/format.h>

#include <array>

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
  if (const auto packed = type(".weight_packed")) {
    const bool whole = *packed == DType::i32;
    matrix.format = whole ? WeightFormat::int4 : WeightFormat::mxfp4;
    check_groups(names.first + ".weight_packed", columns, 32, whole ? "INT4" : "MXFP4");
    matrix.data = whole ? part(".weight_packed", {rows, columns / 8}, DType::i32)
                        : part(".weight_packed", {rows, columns / 2}, DType::u8);
    matrix.scales = part(".weight_scale", {rows, columns / 32}, whole ? DType::bf16 : DType::u8);
  } else {
    const DType dtype = type(".weight").value_or(DType::bf16);
    matrix.format = format_of(names.first + ".weight", dtype).value_or(WeightFormat::f32);
    matrix.data = part(".weight", {rows, columns}, dtype);
    if (matrix.format == WeightFormat::f8_e4m3) {
      check_groups(names.first + ".weight", columns, 32, "F8_E4M3");
      matrix.scales = part(".weight_scale_inv",
                           {kernels::f8_blocks(rows), kernels::f8_blocks(columns)}, DType::f32);
    }
  }
  if (bias) {
    const DType dtype = type(".bias").value_or(DType::f32);
    matrix.bias_format = plain_format(names.first + ".bias", dtype).value_or(WeightFormat::f32);
    matrix.bias = part(".bias", {rows}, dtype);
  }
  return matrix;
}

std::vector<BlueprintBuilder::ExpertPart> BlueprintBuilder::gpt_oss_parts(
    const WantedExperts& wanted, ExpertLayout& layout) {
  std::vector<ExpertPart> parts;
  const auto matrix = [&](const std::string& name, std::size_t rows, std::size_t columns) {
    const std::string whole = wanted.prefix + name;
    const auto part = [&](const char* what, std::vector<std::uint64_t> shape, DType dtype) {
      parts.push_back({whole + what, std::move(shape), dtype});
      return parts.size() - 1;
    };
    check_groups(whole + "_blocks", columns, 32, "MXFP4");
    ExpertMatrix made;
    made.format = WeightFormat::mxfp4;
    made.data = part("_blocks", {rows, columns / 32, 16}, DType::u8);
    made.scales = part("_scales", {rows, columns / 32}, DType::u8);
    made.bias_format = WeightFormat::bf16;
    made.bias = part("_bias", {rows}, DType::bf16);
    return made;
  };
  layout.by_turns = true;
  layout.gate = matrix(wanted.gate, 2 * wanted.inner, wanted.width);
  layout.down = matrix(wanted.down, wanted.width, wanted.inner);
  return parts;
}

std::vector<BlueprintBuilder::ExpertPart> BlueprintBuilder::expert_parts(
    const WantedExperts& wanted, ExpertLayout& layout) {
  if (wanted.form == WantedExperts::Form::gpt_oss) return gpt_oss_parts(wanted, layout);
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

/// compressed-tensors keeps the shape of a packed matrix in a tensor of its own, which says what
/// the packed tensor's shape does.
void BlueprintBuilder::note_shapes(const WantedExperts& wanted, std::size_t expert,
                                   const ExpertLayout& layout) {
  if (layout.gate.format != WeightFormat::int4) return;
  for (const std::string* matrix : {&wanted.gate, &wanted.down, &wanted.up}) {
    const std::string name = fmt::format("{}{}.{}.weight_shape", wanted.prefix, expert, *matrix);
    if (!tensors_.type_of(name)) continue;
    const std::array<std::uint64_t, 1> shape = {2};
    const auto found = find(name, {.shape = shape, .dtype = DType::i32});
    if (found) check_shape(name, found->shape, shape);
  }
}

void BlueprintBuilder::find_separate(const WantedExperts& wanted, std::span<const ExpertPart> parts,
                                     const ExpertLayout& layout, weights::ExpertLayer& layer) {
  for (std::size_t expert = 0; expert < layer.experts.size(); ++expert) {
    if (faults_.size() > kMostFaults) break;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string name = fmt::format("{}{}.{}", wanted.prefix, expert, parts[i].name);
      const auto found = find_part(name, parts[i], parts[i].shape);
      if (!found) continue;
      layer.experts[expert].file[i] = found->extent.file;
      layer.experts[expert].offset[i] = found->extent.offset;
    }
    note_shapes(wanted, expert, layout);
  }
}

/// An expert is an extent inside each tensor.
void BlueprintBuilder::find_together(std::span<const ExpertPart> parts,
                                     weights::ExpertLayer& layer) {
  blueprint_.experts_share_tensors = true;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::vector<std::uint64_t> shape = {layer.experts.size()};
    shape.insert(shape.end(), parts[i].shape.begin(), parts[i].shape.end());
    const auto found = find_part(parts[i].name, parts[i], shape);
    if (!found) continue;
    for (std::size_t expert = 0; expert < layer.experts.size(); ++expert) {
      layer.experts[expert].file[i] = found->extent.file;
      layer.experts[expert].offset[i] = found->extent.offset + expert * layer.part_bytes[i];
    }
  }
}

ExpertLayout BlueprintBuilder::experts(const WantedExperts& wanted) {
  const TensorClass outside = class_;
  class_ = TensorClass::experts;
  ExpertLayout layout;
  const std::vector<ExpertPart> parts = expert_parts(wanted, layout);
  auto& layer = blueprint_.blocks.expert_layers[static_cast<std::size_t>(layer_)];
  if (parts.size() > weights::kMaxParts) {
    faults_.push_back(
        fmt::format("tensors {}*: quantized experts with biases are not supported", wanted.prefix));
    class_ = outside;
    return layout;
  }
  layer.parts = parts.size();
  blueprint_.expert_weights[static_cast<std::size_t>(layer_)] = 3 * wanted.inner * wanted.width;
  for (std::size_t i = 0; i < parts.size(); ++i) layer.part_bytes[i] = parts[i].bytes();
  layer.experts.resize(faults_.size() <= kMostFaults ? wanted.count : 0);
  if (wanted.form == WantedExperts::Form::separate) {
    find_separate(wanted, parts, layout, layer);
  } else {
    find_together(parts, layer);
  }
  class_ = outside;
  return layout;
}

}  // namespace sluice::model
