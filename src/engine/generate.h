// From a prompt to new tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "text/sampler.h"
#include "text/token_constraint.h"

namespace sluice::engine {

enum class FinishReason : std::uint8_t {
  length,       ///< max_new tokens are written
  end_of_turn,  ///< the model ended by itself
  stopped,      ///< the consumer had enough (a stop string)
  context,      ///< the sequence is full
  interrupted,  ///< cancelled between or inside tokens; what was written stays valid
};
std::string_view name_of(FinishReason reason);
/// Whether more would have come.
constexpr bool is_cut(FinishReason reason) {
  return reason != FinishReason::end_of_turn && reason != FinishReason::stopped;
}

struct GenerateOptions {
  std::size_t max_new = 128;
  text::SamplingOptions sampling;
  std::vector<std::int32_t> stop_ids;  ///< end the answer, and are not part of it
  FeedOptions feed;                    ///< cancellation and progress
  /// What the answer has to be like; it must outlive the call, and is of no use afterwards. An
  /// answer that cannot go on ends (end_of_turn) without another pass.
  text::TokenConstraint* constraint = nullptr;
  /// Sees the logits, [vocabulary], from which each token was chosen, and the token, before
  /// on_token does; also for a stop id.
  std::function<void(std::span<const float> logits, std::int32_t id)> on_choice;
  /// A cancelled answer ends between two tokens, so that the sequence can be continued; otherwise
  /// it ends at once, inside a token, as an error of ErrorKind::interrupted.
  bool keep_sequence = false;
  /// The beginning of the answer, if it is known from an earlier run with the same options. The
  /// sequence holds all of it but the last; no logits are looked at for it. It is given to on_token
  /// again, and counts as written.
  std::span<const std::int32_t> known = {};
  /// Tokens to guess and to feed behind each in the same pass, at most EngineOptions::drafts
  /// (drafter.h). Those that come true save a pass; no choice changes the answer.
  std::size_t drafts = 0;
  /// What the sequence holds before the prompt (of go_on(): all that it holds but `known`); looked
  /// at for drafts only.
  std::span<const std::int32_t> before = {};
};

struct Generated {
  std::vector<std::int32_t> ids;  ///< without the stop id
  FinishReason reason = FinishReason::length;
};

/// Feeds `prompt` (at least one token) to the sequence and writes up to max_new tokens. Each is
/// given to `on_token` as soon as it is known; false stops the answer. Afterwards the sequence
/// holds the prompt and all of `ids` but the last (whose turn to be fed has not come).
/// `counts` gets the counts and times of this call added.
Result<Generated> generate(Engine& engine, model::SequenceState& sequence,
                           std::span<const std::int32_t> prompt, const GenerateOptions& options,
                           const std::function<bool(std::int32_t id)>& on_token,
                           TokenCounts& counts);

/// The same after a prompt that the sequence holds already; `logits`: [vocabulary], of its last
/// position (none are needed if the beginning of the answer is known).
Result<Generated> go_on(Engine& engine, model::SequenceState& sequence,
                        std::span<const float> logits, const GenerateOptions& options,
                        const std::function<bool(std::int32_t id)>& on_token, TokenCounts& counts);

}  // namespace sluice::engine
