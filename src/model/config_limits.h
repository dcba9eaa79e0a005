// The most that a model's description may say.
#pragma once

#include <cstdint>

namespace sluice::model {

/// Larger than any size in a model will be, small enough that no product of two overflows.
inline constexpr std::uint64_t kLargestSize = std::uint64_t{1} << 24;
inline constexpr std::uint64_t kMostPositions = std::uint64_t{1} << 32;

}  // namespace sluice::model
