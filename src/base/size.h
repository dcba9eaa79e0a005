// Sizes as people write them: powers of two.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

/// Parses "4096", "64M", "6G", "1.5GiB", "2TB" (all powers of two, letters in any case).
/// Fails with ErrorKind::usage on anything else, on zero, and on what exceeds 2^63 bytes.
Result<std::uint64_t> parse_size(std::string_view text);

/// "512 B", "3.0 KiB", "1.53 GiB": three figures, rounded to nearest.
std::string format_size(std::uint64_t bytes);

/// Rounds up to a multiple of `unit` (which need not be a power of two).
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// More than any machine has. Sums of a few of these still fit into 64 bits.
inline constexpr std::uint64_t kTooManyBytes = std::uint64_t{1} << 58;

/// A product of sizes, kTooManyBytes at most: for models whose configuration asks for more.
constexpr std::uint64_t capped_product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > kTooManyBytes) return kTooManyBytes;
  return product;
}

/// Likewise a sum.
constexpr std::uint64_t capped_sum(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum) || sum > kTooManyBytes) return kTooManyBytes;
  return sum;
}

}  // namespace sluice
