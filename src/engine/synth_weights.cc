#include "engine/synth_weights.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/check.h"

namespace sluice::engine {
namespace {

/// Nearest BF16, ties to even. `value` is finite.
std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

/// Draw `level` of `levels` from N(0, 1): Box-Muller over an even grid of radii, with angles that
/// step by the golden ratio. Pairs of opposite sign, so that the mean is exactly 0.
float normal_draw(std::size_t level, std::size_t levels) {
  const std::size_t pair = level / 2;
  const double uniform = (static_cast<double>(pair) + 0.5) / (static_cast<double>(levels) / 2);
  const double angle = 2 * std::numbers::pi * std::numbers::phi * static_cast<double>(pair);
  const double draw = std::sqrt(-2 * std::log(uniform)) * std::cos(angle);
  return static_cast<float>(level % 2 == 0 ? draw : -draw);
}

}  // namespace

WeightFiller::WeightFiller(const SynthTensor& tensor, std::uint64_t seed)
    : fill_(tensor.fill),
      dtype_(tensor.dtype),
      mean_(tensor.mean),
      active_bytes_(tensor.active * bytes_of(tensor.dtype)),
      key_(XXH3_64bits_withSeed(tensor.name.data(), tensor.name.size(), seed)) {
  if (fill_ != Fill::normal) return;
  SLUICE_CHECK(dtype_ == DType::f32 || dtype_ == DType::bf16);
  if (dtype_ == DType::f32) floats_ = std::make_unique<std::array<float, kLevels>>();
  if (dtype_ == DType::bf16) halves_ = std::make_unique<std::array<std::uint16_t, kLevels>>();
  for (std::size_t level = 0; level < kLevels; ++level) {
    const float value = mean_ + tensor.spread * normal_draw(level, kLevels);
    if (floats_) (*floats_)[level] = value;
    if (halves_) (*halves_)[level] = to_bf16(value);
  }
}

void WeightFiller::fill(std::uint64_t offset, std::span<std::byte> to) const {
  SLUICE_CHECK(offset % kFillUnit == 0);
  switch (fill_) {
    case Fill::normal:
      if (floats_) fill_normal(offset, to, *floats_);
      if (halves_) fill_normal(offset, to, *halves_);
      break;
    case Fill::codes:
      fill_codes(offset, to);
      break;
    case Fill::scales:
      fill_scales(offset, to);
      break;
  }
  clear_inactive(offset, to);
}

/// The generator is a counter put through a mixing function (SplitMix64): no state to carry.
std::uint64_t WeightFiller::word(std::uint64_t index) const {
  std::uint64_t z = key_ + (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/// One word makes four elements, of 12 bits each.
template <class Element>
void WeightFiller::fill_normal(std::uint64_t offset, std::span<std::byte> to,
                               const std::array<Element, kLevels>& table) const {
  constexpr std::size_t kGroup = 4 * sizeof(Element);
  std::uint64_t index = offset / kGroup;
  for (std::size_t at = 0; at < to.size(); at += kGroup, ++index) {
    const std::uint64_t bits = word(index);
    const std::array<Element, 4> group = {table[bits % kLevels], table[(bits >> 16) % kLevels],
                                          table[(bits >> 32) % kLevels],
                                          table[(bits >> 48) % kLevels]};
    std::memcpy(to.data() + at, group.data(), std::min(kGroup, to.size() - at));
  }
}

void WeightFiller::fill_codes(std::uint64_t offset, std::span<std::byte> to) const {
  std::uint64_t index = offset / sizeof(std::uint64_t);
  for (std::size_t at = 0; at < to.size(); at += sizeof(std::uint64_t), ++index) {
    const std::uint64_t bits = word(index);
    std::memcpy(to.data() + at, &bits, std::min(sizeof(bits), to.size() - at));
  }
}

void WeightFiller::fill_scales(std::uint64_t offset, std::span<std::byte> to) const {
  static constexpr std::array<int, 4> kSteps = {0, 0, -1, 1};
  std::uint64_t index = offset / sizeof(std::uint64_t);
  for (std::size_t at = 0; at < to.size(); at += sizeof(std::uint64_t), ++index) {
    const std::uint64_t bits = word(index);
    for (std::size_t i = 0; i < std::min(sizeof(bits), to.size() - at); ++i) {
      to[at + i] = static_cast<std::byte>(static_cast<int>(mean_) + kSteps[(bits >> (8 * i)) % 4]);
    }
  }
}

void WeightFiller::clear_inactive(std::uint64_t offset, std::span<std::byte> to) const {
  if (offset + to.size() <= active_bytes_) return;
  const std::uint64_t kept = active_bytes_ > offset ? active_bytes_ - offset : 0;
  std::fill(to.begin() + static_cast<std::ptrdiff_t>(kept), to.end(), std::byte{0});
}

}  // namespace sluice::engine
