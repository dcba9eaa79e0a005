// The caches of one layer and one sequence, position by position.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/cache.h"

namespace sluice::model {

/// `caches` of them one after the other, each a ring of `rows` positions of `width` numbers.
struct LayerCaches {
  std::byte* data = nullptr;
  kernels::WeightFormat format = kernels::WeightFormat::f32;
  std::size_t rows = 0;
  std::size_t width = 0;
  std::size_t window = 0;  ///< positions that one looks back on, itself included; 0: all

  /// Positions that may be appended before they are attended from: what an earlier one of them
  /// still sees must not be overwritten. That goes for drafts too, behind which the sequence goes
  /// on as if they had not been there.
  static constexpr std::size_t kAppendedAtOnce = 64;
  std::size_t appended_at_once(std::size_t count) const {
    return window == 0 ? count : std::min(count, kAppendedAtOnce);
  }

  /// Rows that a cache of a sequence of `context` positions needs.
  static std::size_t rows_for(std::size_t window, std::size_t context) {
    return window == 0 ? context : std::min(context, window - 1 + kAppendedAtOnce);
  }

  std::size_t row_bytes() const { return kernels::cached_row_bytes(format, width); }
  std::byte* cache(std::size_t index) const { return data + index * rows * row_bytes(); }

  void append(std::size_t index, std::size_t position, const float* row) const {
    kernels::cache_row(format, row, width, cache(index) + position % rows * row_bytes());
  }

  /// What `position` attends to in a cache of keys and a cache of values, which may be the same.
  kernels::CachedRows seen_from(std::size_t position, std::size_t keys, std::size_t values) const {
    const std::size_t count = window == 0 ? position + 1 : std::min(position + 1, window);
    return {.format = format,
            .keys = cache(keys),
            .values = cache(values),
            .rows = rows,
            .first = (position + 1 - count) % rows,
            .count = count,
            .key_width = width,
            .value_stride = width,
            .value_width = width};
  }
};

}  // namespace sluice::model
