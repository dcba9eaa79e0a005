// Random weights, fast: any part of a tensor can be drawn without the parts before it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/synth_plan.h"

namespace sluice::engine {

/// Parts of a tensor are drawn from a multiple of this many bytes on.
inline constexpr std::size_t kFillUnit = 64;

/// Draws the elements of one tensor. The bytes depend on seed, name and place only.
class WeightFiller {
 public:
  WeightFiller(const SynthTensor& tensor, std::uint64_t seed);

  /// Writes the tensor's bytes from `offset` on, a multiple of kFillUnit.
  void fill(std::uint64_t offset, std::span<std::byte> to) const;

 private:
  static constexpr std::size_t kLevels = 4096;  // a table of this many draws fits into L1

  template <class Element>
  void fill_normal(std::uint64_t offset, std::span<std::byte> to,
                   const std::array<Element, kLevels>& table) const;
  void fill_codes(std::uint64_t offset, std::span<std::byte> to) const;
  void fill_scales(std::uint64_t offset, std::span<std::byte> to) const;
  void clear_inactive(std::uint64_t offset, std::span<std::byte> to) const;
  std::uint64_t word(std::uint64_t index) const;

  Fill fill_;
  DType dtype_;
  float mean_;
  std::uint64_t active_bytes_;
  std::uint64_t key_;
  std::unique_ptr<std::array<float, kLevels>> floats_;          // for F32
  std::unique_ptr<std::array<std::uint16_t, kLevels>> halves_;  // for BF16
};

}  // namespace sluice::engine
