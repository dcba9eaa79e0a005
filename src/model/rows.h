// Which rows of a pass belong together.
#pragma once

#include <cstddef>

namespace sluice::model {

/// The rows of one segment: consecutive positions of one sequence.
struct RowRange {
  std::size_t first = 0;  ///< row of the pass
  std::size_t count = 0;
  std::size_t past = 0;  ///< positions of the sequence before the first
};

}  // namespace sluice::model
