// Element types as they are stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice {

/// Element type of a stored tensor (the safetensors set).
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
};

/// Bytes of one element.
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
  }
  return 0;
}

/// The name that safetensors gives the type: "BF16", "F32", ...
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
  }
  return "?";
}

}  // namespace sluice
