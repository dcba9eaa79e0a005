// One task in the engine, from its prompts to its answers.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/engine.h"
#include "server/conversations.h"
#include "server/metrics.h"
#include "server/status_board.h"
#include "server/task.h"
#include "text/token_index.h"
#include "text/tokenizer.h"

namespace sluice::server {

/// What a run works with; all of it is the worker's and outlives the run.
struct Workplace {
  engine::Engine& engine;
  const text::Tokenizer& tokenizer;
  const std::vector<std::int32_t>& stop_ids;
  Conversations& conversations;
  Metrics& metrics;
  StatusBoard& board;
  engine::TokenCounts& counts;
  std::function<const text::TokenIndex&()> token_index;  ///< made when it is first asked for
  std::function<void()> publish;                         ///< called while it works, often
};

/// Writes all answers that the task asks for, as events of it; Kind::done is the last. The error,
/// if it fails, is left for the caller to tell.
Status run_task(const Workplace& place, Task& task);

}  // namespace sluice::server
