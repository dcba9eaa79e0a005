#include "store/gguf_types.h"

#include <array>
#include <utility>

namespace sluice::store {

GgmlType ggml_type(std::uint32_t number) {
  switch (number) {
    case 0:
      return {"F32", DType::f32};
    case 1:
      return {"F16", DType::f16};
    case 2:
      return {"Q4_0", DType::q4_0};
    case 3:
      return {"Q4_1", DType::q4_1};
    case 6:
      return {"Q5_0", DType::q5_0};
    case 7:
      return {"Q5_1", DType::q5_1};
    case 8:
      return {"Q8_0", DType::q8_0};
    case 10:
      return {"Q2_K", DType::q2_k};
    case 11:
      return {"Q3_K", DType::q3_k};
    case 12:
      return {"Q4_K", DType::q4_k};
    case 13:
      return {"Q5_K", DType::q5_k};
    case 14:
      return {"Q6_K", DType::q6_k};
    case 20:
      return {"IQ4_NL", DType::iq4_nl};
    case 23:
      return {"IQ4_XS", DType::iq4_xs};
    case 24:
      return {"I8", DType::i8};
    case 25:
      return {"I16", DType::i16};
    case 26:
      return {"I32", DType::i32};
    case 27:
      return {"I64", DType::i64};
    case 28:
      return {"F64", DType::f64};
    case 30:
      return {"BF16", DType::bf16};
    case 39:
      return {"MXFP4", DType::mxfp4};
    default:
      break;
  }
  static constexpr std::array<std::pair<std::uint32_t, std::string_view>, 11> kOthers = {{
      {9, "Q8_1"},
      {15, "Q8_K"},
      {16, "IQ2_XXS"},
      {17, "IQ2_XS"},
      {18, "IQ3_XXS"},
      {19, "IQ1_S"},
      {21, "IQ3_S"},
      {22, "IQ2_S"},
      {29, "IQ1_M"},
      {34, "TQ1_0"},
      {35, "TQ2_0"},
  }};
  for (const auto& [other, name] : kOthers) {
    if (other == number) return {name, std::nullopt};
  }
  return {"", std::nullopt};
}

}  // namespace sluice::store
