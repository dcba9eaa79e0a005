// A model, opened, with its place in memory: runs tokens through it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/cancellation.h"
#include "base/result.h"
#include "engine/drafter.h"
#include "engine/options.h"
#include "engine/statistics.h"
#include "model/network.h"
#include "weights/expert_activity.h"

namespace sluice::engine {

struct Budget;
class TracedReader;

/// Where a feed() is, for progress displays. Called often; must be quick.
struct Progress {
  std::size_t tokens_done = 0;  ///< of this feed(), whole chunks
  std::size_t tokens = 0;
  std::size_t layer = 0;  ///< of the chunk under way
  std::size_t layers = 0;
  std::size_t chunk_tokens = 0;  ///< tokens of the chunk under way
  std::uint64_t bytes_read = 0;  ///< since the engine was opened
  double seconds = 0;            ///< since this feed() began
};

struct FeedOptions {
  /// So many of the tokens, at most EngineOptions::drafts of them behind one other, are guesses:
  /// they are computed, but not appended before Engine::accept(). The logits of all are returned,
  /// [1 + drafts, vocabulary]; but where what failed may have been a draft's affair, the token
  /// before them alone is computed and returned, [1, vocabulary], as if there had been none.
  /// Callbacks see the rows of drafts, too.
  std::size_t drafts = 0;
  const Cancellation* cancellation = nullptr;
  std::function<void(const Progress&)> on_progress;
  /// Called between two chunks: the sequence holds `tokens` of this feed(), whole chunks, as it
  /// would after a feed() of these alone, and may be saved. The engine may not be used.
  std::function<void(std::size_t tokens)> on_chunk;
  /// With EngineOptions::all_logits: called chunk by chunk with the logits of its positions,
  /// [count, vocabulary]. `first` counts from the start of this feed().
  std::function<Status(std::size_t first, std::span<const float> logits)> on_logits;
  /// Called chunk by chunk, layer by layer: hidden [count, hidden] after the layer.
  std::function<Status(std::size_t first, std::size_t layer, std::span<const float> hidden)>
      on_hidden;
  /// Called for each layer with experts: ids [count, top_k], by descending score.
  std::function<Status(std::size_t first, std::size_t layer, std::span<const std::int32_t> ids)>
      on_routes;
};

class Engine {
 public:
  /// Opens the model and draws up the memory budget. Fails with ErrorKind::model_files listing
  /// everything that is wrong with the files, or with ErrorKind::memory naming the smallest budget
  /// that works, or with ErrorKind::usage for a context that was asked for and that the model was
  /// not made for; nothing has been read of the weights then.
  static Result<std::unique_ptr<Engine>> open(const EngineOptions& options);
  ~Engine();

  const model::Shape& shape() const;
  const EngineOptions& options() const { return options_; }  ///< with all defaults filled in
  std::size_t chunk() const { return *options_.chunk; }

  /// Tells the model from others (model_digest()), for states that are kept beyond the engine.
  /// Needs EngineOptions::identify.
  std::uint64_t digest() const;

  /// The same of adapter `number` (see EngineOptions::adapters), or 0 for 0: none.
  std::uint64_t adapter_digest(std::uint32_t number) const;

  /// An empty sequence with room for options().context positions. `adapter`: with which its
  /// positions are computed (EngineOptions::adapters, counted from 1); 0: none.
  Result<std::unique_ptr<model::SequenceState>> new_sequence(std::uint32_t adapter = 0);

  /// Appends `tokens` (at least one) to the sequence, chunk by chunk, and returns the logits of
  /// the last position, [vocabulary] (but see FeedOptions::drafts), valid until the next call. On
  /// an error the sequence is empty again, and the engine can go on.
  Result<std::span<const float>> feed(model::SequenceState& sequence,
                                      std::span<const std::int32_t> tokens,
                                      const FeedOptions& options = {});

  /// Appends the next `count` drafts of the last feed(), which was of this sequence. It is then as
  /// if they had been fed. Their logits stay valid until the next feed().
  void accept(model::SequenceState& sequence, std::size_t count);
  /// What drafts were worth so far; kept by whoever feeds them.
  DraftJudge& draft_judge() { return draft_judge_; }

  /// Where memory beside the engine's own is charged (see EngineOptions::reserve, saved_states).
  MemoryLedger& ledger();

  /// What the engine did since it was opened, with the counts of the answers it was used for.
  Statistics statistics(const TokenCounts& tokens = {}) const;

  /// May be called from any thread, also during feed(); so may members of what activity() returns.
  LiveStatistics live() const;
  /// With EngineOptions::watch_experts: what happens to experts; else nullptr.
  const weights::ExpertActivity* activity() const;

 private:
  struct Parts;
  class Watcher;
  void mind_memory();
  void predict_run(Statistics& now) const;
  Engine(EngineOptions options, std::unique_ptr<Parts> parts);
  static Status furnish(Parts& parts, const EngineOptions& options, const Budget& budget,
                        TracedReader* traced);
  Result<std::span<const float>> feed_with(model::SequenceState& sequence,
                                           std::span<const std::int32_t> tokens,
                                           const FeedOptions& options,
                                           const model::Adapter* adapter);
  Result<std::span<const float>> feed_drafts(model::SequenceState& sequence,
                                             std::span<const std::int32_t> tokens,
                                             const FeedOptions& options,
                                             const model::Adapter* adapter, Watcher& watcher);
  Result<std::span<const float>> run_chunk(const model::Segment& segment, Watcher& watcher,
                                           const FeedOptions& options);
  Result<std::span<const float>> run_pass(const model::Segment& segment, Watcher& watcher,
                                          const FeedOptions& options, PassTimes& times);
  /// Whether that many tokens more have room; never cuts.
  Status check_room(const model::SequenceState& sequence, std::size_t tokens) const;

  EngineOptions options_;
  std::unique_ptr<Parts> parts_;
  PassTimes single_;   // passes of one position
  PassTimes many_;     // passes of more
  PassTimes drafted_;  // passes with drafts, whose speed tells nothing of either
  DraftJudge draft_judge_;
  bool told_of_failing_drafts_ = false;
};

}  // namespace sluice::engine
