// The rows of a pass: admitted, counted and put in order.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "model/network.h"
#include "model/rows.h"

namespace sluice::model {

struct PassRows {
  std::vector<RowRange> segments;
  std::vector<std::size_t> logit_rows;  ///< rows whose logits are wanted, in order
  std::size_t positions = 0;
  std::size_t drafts = 0;  ///< of these, all but the first

  /// Checks the pass against the limits. ErrorKind::memory when a sequence would not fit into its
  /// context, ErrorKind::usage for a token outside the vocabulary.
  static Result<PassRows> admit(const Pass& pass, const PassLimits& limits, std::size_t vocabulary);
};

}  // namespace sluice::model
