#include "model/tensor_source.h"

#include <algorithm>

#include "base/size.h"

namespace sluice::model {

std::optional<SourceTensor> CheckpointTensors::find(const std::string& name, const Wanted&) {
  const auto tensor = checkpoint_.find(name);
  if (!tensor) return std::nullopt;
  return SourceTensor{tensor->dtype,
                      tensor->shape,
                      {files_[tensor->file], tensor->offset, tensor->bytes},
                      tensor->rows_together};
}

std::optional<DType> CheckpointTensors::type_of(const std::string& name) const {
  const auto tensor = checkpoint_.find(name);
  return tensor ? std::optional(tensor->dtype) : std::nullopt;
}

void CheckpointTensors::for_each(
    FunctionRef<void(std::string_view name, std::uint64_t bytes)> visit) {
  checkpoint_.for_each(
      [&](std::string_view name, const store::Tensor& tensor) { visit(name, tensor.bytes); });
}

std::optional<DType> ReleaseTensors::type_of(const std::string& name) const {
  if (name.ends_with(".weight_packed")) return habits_.packed_experts;
  for (const auto& [suffix, dtype] : habits_.suffixes) {
    if (name.ends_with(suffix)) return dtype;
  }
  return habits_.plain;
}

std::optional<SourceTensor> ReleaseTensors::find(const std::string& name, const Wanted& wanted) {
  SourceTensor tensor;
  tensor.dtype = wanted.dtype.value_or(type_of(name).value_or(habits_.plain));
  std::uint64_t elements = 1;
  auto bytes = static_cast<double>(bytes_of(tensor.dtype));
  for (std::uint64_t size : wanted.shape) {
    if (wanted.padded) size = round_up(size, habits_.padding);
    tensor.shape.size[tensor.shape.rank++] = size;
    elements *= size;
    bytes *= static_cast<double>(size);
  }
  tensor.extent = {0, end_, elements * bytes_of(tensor.dtype)};
  end_ += tensor.extent.length;
  bytes_ += bytes;
  return tensor;
}

Status ReleaseTensors::check_size() const {
  constexpr double kMost = 1e18;
  if (bytes_ <= kMost) return {};
  return fail(ErrorKind::model_files, "{}: the sizes make a model of more than {:.0f} PB",
              place_.string(), kMost / 1e15);
}

void ReleaseTensors::for_each(FunctionRef<void(std::string_view name, std::uint64_t bytes)>) {}

}  // namespace sluice::model
