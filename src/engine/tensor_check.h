// Whether a tensor's values can be a trained model's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "store/checkpoint.h"

namespace sluice::engine {

/// Counts what no weight may be, piece by piece.
class TensorCheck {
 public:
  /// Whole elements, or blocks, of the tensor from byte `at` of it on. `scale`: they are scales of
  /// MXFP4.
  void add(const store::Tensor& tensor, bool scale, std::uint64_t at,
           std::span<const std::byte> bytes);

  /// What is wrong with the tensor, all of whose bytes were added; starts anew.
  std::optional<std::string> take(const store::Tensor& tensor, bool scale);

 private:
  std::uint64_t bad_ = 0;
  std::uint64_t first_bad_ = 0;  // byte of the tensor
};

}  // namespace sluice::engine
