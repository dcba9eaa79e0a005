// Element types as they are stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice {

/// Element type of a stored tensor: the safetensors set, and GGUF's block types. A block holds so
/// many neighbours of a row together with their scale.
enum class DType : std::uint8_t {
  boolean,
  u8,
  i8,
  f8_e4m3,
  f8_e5m2,
  u16,
  i16,
  f16,
  bf16,
  u32,
  i32,
  f32,
  u64,
  i64,
  f64,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  mxfp4,  ///< in blocks of 17 bytes, as GGUF has it
};

/// Elements of one block; 1 for a type without blocks.
constexpr std::size_t elements_of(DType dtype) {
  switch (dtype) {
    case DType::q4_0:
    case DType::q4_1:
    case DType::q5_0:
    case DType::q5_1:
    case DType::q8_0:
    case DType::iq4_nl:
    case DType::mxfp4:
      return 32;
    case DType::q2_k:
    case DType::q3_k:
    case DType::q4_k:
    case DType::q5_k:
    case DType::q6_k:
    case DType::iq4_xs:
      return 256;
    default:
      return 1;
  }
}

/// Bytes of one element, or of one block.
constexpr std::size_t bytes_of(DType dtype) {
  switch (dtype) {
    case DType::boolean:
    case DType::u8:
    case DType::i8:
    case DType::f8_e4m3:
    case DType::f8_e5m2:
      return 1;
    case DType::u16:
    case DType::i16:
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::u32:
    case DType::i32:
    case DType::f32:
      return 4;
    case DType::u64:
    case DType::i64:
    case DType::f64:
      return 8;
    case DType::mxfp4:
      return 17;
    case DType::q4_0:
    case DType::iq4_nl:
      return 18;
    case DType::q4_1:
      return 20;
    case DType::q5_0:
      return 22;
    case DType::q5_1:
      return 24;
    case DType::q8_0:
      return 34;
    case DType::q2_k:
      return 84;
    case DType::q3_k:
      return 110;
    case DType::iq4_xs:
      return 136;
    case DType::q4_k:
      return 144;
    case DType::q5_k:
      return 176;
    case DType::q6_k:
      return 210;
  }
  return 0;
}

/// The name that the file format gives the type: "BF16", "F32", "Q4_K", ...
constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return "BOOL";
    case DType::u8:
      return "U8";
    case DType::i8:
      return "I8";
    case DType::f8_e4m3:
      return "F8_E4M3";
    case DType::f8_e5m2:
      return "F8_E5M2";
    case DType::u16:
      return "U16";
    case DType::i16:
      return "I16";
    case DType::f16:
      return "F16";
    case DType::bf16:
      return "BF16";
    case DType::u32:
      return "U32";
    case DType::i32:
      return "I32";
    case DType::f32:
      return "F32";
    case DType::u64:
      return "U64";
    case DType::i64:
      return "I64";
    case DType::f64:
      return "F64";
    case DType::q4_0:
      return "Q4_0";
    case DType::q4_1:
      return "Q4_1";
    case DType::q5_0:
      return "Q5_0";
    case DType::q5_1:
      return "Q5_1";
    case DType::q8_0:
      return "Q8_0";
    case DType::q2_k:
      return "Q2_K";
    case DType::q3_k:
      return "Q3_K";
    case DType::q4_k:
      return "Q4_K";
    case DType::q5_k:
      return "Q5_K";
    case DType::q6_k:
      return "Q6_K";
    case DType::iq4_nl:
      return "IQ4_NL";
    case DType::iq4_xs:
      return "IQ4_XS";
    case DType::mxfp4:
      return "MXFP4";
  }
  return "?";
}

}  // namespace sluice
