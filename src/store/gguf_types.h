// The types that tensors of a GGUF file can have.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace sluice::store {

struct GgmlType {
  std::string_view name;       ///< as GGUF's own tools call it; empty if there is no such number
  std::optional<DType> dtype;  ///< none for one that Sluice does not read
};

/// A tensor type by its number in the file.
GgmlType ggml_type(std::uint32_t number);

/// Those that weights may have, for messages.
inline constexpr std::string_view kReadableGgmlTypes =
    "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, "
    "MXFP4";

}  // namespace sluice::store
