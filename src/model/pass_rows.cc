#include "model/pass_rows.h"

#include "base/check.h"

namespace sluice::model {

Result<PassRows> PassRows::admit(const Pass& pass, const PassLimits& limits,
                                 std::size_t vocabulary) {
  PassRows rows;
  for (const Segment& segment : pass.segments) {
    SLUICE_CHECK(segment.state != nullptr && !segment.tokens.empty());
    const SequenceState& state = *segment.state;
    if (state.length() + segment.tokens.size() > state.context()) {
      return fail(ErrorKind::memory,
                  "the sequence has {} positions and {} more do not fit into its context of {}; "
                  "raise --ctx",
                  state.length(), segment.tokens.size(), state.context());
    }
    for (const std::int32_t token : segment.tokens) {
      if (token >= 0 && static_cast<std::size_t>(token) < vocabulary) continue;
      return fail(ErrorKind::usage, "token id {} is outside the vocabulary of {}", token,
                  vocabulary);
    }
    rows.segments.push_back({rows.positions, segment.tokens.size(), state.length()});
    for (std::size_t i = 0; i < segment.tokens.size(); ++i) {
      const bool last = i + 1 == segment.tokens.size();
      if (segment.logits == Logits::all || (segment.logits == Logits::last && last)) {
        rows.logit_rows.push_back(rows.positions + i);
      }
    }
    rows.positions += segment.tokens.size();
    rows.drafts += segment.drafts;
    SLUICE_CHECK(segment.drafts == 0 ||
                 (pass.segments.size() == 1 && segment.tokens.size() == 1 + segment.drafts));
  }
  SLUICE_CHECK(rows.positions > 0 && rows.positions <= limits.positions);
  SLUICE_CHECK(rows.logit_rows.size() <= limits.logit_rows && rows.drafts <= limits.drafts);
  return rows;
}

}  // namespace sluice::model
