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

/// Makes `to` out of groups of bytes, group_at(index), each whole but the last.
template <class GroupAt>
void fill_groups(std::uint64_t offset, std::span<std::byte> to, GroupAt group_at) {
  using Group = decltype(group_at(std::uint64_t{}));
  std::uint64_t index = offset / sizeof(Group);
  std::size_t at = 0;
  for (; at + sizeof(Group) <= to.size(); at += sizeof(Group), ++index) {
    const Group group = group_at(index);
    std::memcpy(to.data() + at, &group, sizeof(group));
  }
  if (at == to.size()) return;
  const Group group = group_at(index);
  std::memcpy(to.data() + at, &group, to.size() - at);
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

/// The generator is a counter put through a mixing function (SplitMix64): no state to carry.
std::uint64_t WeightFiller::word(std::uint64_t index) const {
  std::uint64_t z = key_ + (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
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

/// One word makes four elements, of 12 bits each.
template <class Element>
void WeightFiller::fill_normal(std::uint64_t offset, std::span<std::byte> to,
                               const std::array<Element, kLevels>& table) const {
  fill_groups(offset, to, [&](std::uint64_t index) {
    const std::uint64_t bits = word(index);
    return std::array<Element, 4>{table[bits % kLevels], table[(bits >> 16) % kLevels],
                                  table[(bits >> 32) % kLevels], table[(bits >> 48) % kLevels]};
  });
}

void WeightFiller::fill_codes(std::uint64_t offset, std::span<std::byte> to) const {
  fill_groups(offset, to, [&](std::uint64_t index) { return word(index); });
}

void WeightFiller::fill_scales(std::uint64_t offset, std::span<std::byte> to) const {
  const auto base = static_cast<std::uint8_t>(mean_);
  const std::array<std::uint8_t, 4> scales = {base, base, static_cast<std::uint8_t>(base - 1),
                                              static_cast<std::uint8_t>(base + 1)};
  fill_groups(offset, to, [&](std::uint64_t index) {
    const std::uint64_t bits = word(index);
    std::array<std::uint8_t, 8> group;
    for (std::size_t i = 0; i < group.size(); ++i) group[i] = scales[(bits >> (8 * i)) % 4];
    return group;
  });
}

void WeightFiller::clear_inactive(std::uint64_t offset, std::span<std::byte> to) const {
  if (offset + to.size() <= active_bytes_) return;
  const std::uint64_t kept = active_bytes_ > offset ? active_bytes_ - offset : 0;
  std::fill(to.begin() + static_cast<std::ptrdiff_t>(kept), to.end(), std::byte{0});
}

}  // namespace sluice::engine
