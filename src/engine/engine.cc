#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory_info.h"
#include "base/process_io.h"
#include "base/size.h"
#include "engine/engine_parts.h"
#include "engine/learn.h"
#include "io/drive_temperature.h"

namespace sluice::engine {

Engine::Engine(EngineOptions options, std::unique_ptr<Parts> parts)
    : options_(std::move(options)), parts_(std::move(parts)) {}

Engine::~Engine() {
  if (parts_->fingerprint == 0 || single_.passes + many_.passes + drafted_.passes == 0) return;
  const Status saved = save_history(history_file(options_.history, parts_->fingerprint),
                                    parts_->fingerprint, parts_->experts->use());
  if (!saved) log_note("{}", saved.error().message);
}

void Engine::mind_memory() {
  Parts& parts = *parts_;
  const std::uint64_t gone = parts.trunk->gone_bytes() + parts.experts->statistics().gone_bytes;
  const std::uint64_t placed = parts.placement.resident_room + parts.placement.bank_bytes();
  const PressureGuard::Step step = parts.guard->check(gone, placed - gone);
  if (step.give_back > 0) {
    std::uint64_t given = parts.experts->shed(step.give_back);
    if (given < step.give_back) given += parts.trunk->shed(step.give_back - given);
    if (given > 0 && parts.most_gone_bytes == 0) {
      log_note(
          "memory is short ({} are left for all): the room for weights is made smaller for as "
          "long as that lasts; the answer stays the same",
          format_size(step.available));
    }
    parts.most_gone_bytes = std::max(parts.most_gone_bytes, gone + given);
  } else if (step.take_back > 0) {
    const std::uint64_t taken = parts.trunk->regrow(step.take_back);
    parts.experts->regrow(step.take_back - taken);
  }
}

const model::Shape& Engine::shape() const { return parts_->architecture->shape(); }

std::uint64_t Engine::digest() const {
  SLUICE_CHECK(options_.identify);
  return parts_->digest;
}

std::uint64_t Engine::adapter_digest(std::uint32_t number) const {
  SLUICE_CHECK(options_.identify && number <= parts_->adapters.size());
  return number == 0 ? 0 : parts_->adapters.digest(number);
}

Result<std::unique_ptr<model::SequenceState>> Engine::new_sequence(std::uint32_t adapter) {
  SLUICE_CHECK(adapter <= parts_->adapters.size());
  SLUICE_ASSIGN(auto sequence, parts_->network->new_state(options_.context));
  sequence->adapt(adapter);
  return sequence;
}

MemoryLedger& Engine::ledger() { return parts_->ledger; }

/// Passes on what a pass reports, with the chunk's place in the whole.
class Engine::Watcher final : public model::PassObserver {
 public:
  Watcher(Engine& engine, const FeedOptions& options, std::size_t tokens)
      : engine_(engine), options_(options) {
    progress_.tokens = tokens;
    progress_.layers = engine.shape().layers;
  }

  void begin_chunk(std::size_t first, std::size_t count) {
    progress_.tokens_done = first;
    progress_.chunk_tokens = count;
  }
  /// Of the chunk under way: its first token, counted from the start of the feed().
  std::size_t first() const { return progress_.tokens_done; }
  /// The first error that a callback returned.
  Status status() const { return status_; }

  void on_layer_begin(std::size_t layer) override {
    engine_.mind_memory();
    if (!options_.on_progress) return;
    progress_.layer = layer;
    progress_.seconds = seconds_since(start_);
    const auto reads = engine_.parts_->reader->statistics();
    progress_.bytes_read = 0;
    for (const std::uint64_t bytes : reads.requested_bytes) progress_.bytes_read += bytes;
    options_.on_progress(progress_);
  }
  void on_hidden(std::size_t layer, std::span<const float> hidden) override {
    if (options_.on_hidden) keep(options_.on_hidden(progress_.tokens_done, layer, hidden));
  }
  void on_routes(std::size_t layer, std::span<const std::int32_t> ids) override {
    if (options_.on_routes) keep(options_.on_routes(progress_.tokens_done, layer, ids));
  }

 private:
  void keep(Status status) {
    if (status_ && !status) status_ = std::move(status);
  }

  Engine& engine_;
  const FeedOptions& options_;
  const Clock::time_point start_ = Clock::now();
  Progress progress_;
  Status status_;
};

namespace {

/// Empties a sequence whose pass was left half way, by an error or by what a callback threw: some
/// layers have its positions, others do not.
class EmptiesUnlessDone {
 public:
  explicit EmptiesUnlessDone(model::SequenceState& sequence) : sequence_(sequence) {}
  ~EmptiesUnlessDone() {
    if (!done_) sequence_.reset();
  }
  EmptiesUnlessDone(const EmptiesUnlessDone&) = delete;
  EmptiesUnlessDone& operator=(const EmptiesUnlessDone&) = delete;
  void done() { done_ = true; }

 private:
  model::SequenceState& sequence_;
  bool done_ = false;
};

}  // namespace

Status Engine::check_room(const model::SequenceState& sequence, std::size_t tokens) const {
  return check_length(sequence.length(), tokens, sequence.context(), shape());
}

Status check_length(std::size_t before, std::size_t tokens, std::size_t context,
                    const model::Shape& shape) {
  const std::size_t length = before + tokens;
  if (length <= context) return {};
  const std::string after = before > 0 ? fmt::format(" after {}", before) : std::string();
  if (length > shape.max_positions) {
    return fail(ErrorKind::memory,
                "{} tokens{} do not fit: this model was made for at most {} positions; shorten the "
                "text, nothing of it is cut",
                tokens, after, shape.max_positions);
  }
  return fail(ErrorKind::memory,
              "{} tokens{} do not fit into the context of {}; --ctx {} is the least that holds "
              "them",
              tokens, after, context, length);
}

Result<std::span<const float>> Engine::feed(model::SequenceState& sequence,
                                            std::span<const std::int32_t> tokens,
                                            const FeedOptions& options) {
  SLUICE_CHECK(!tokens.empty());
  SLUICE_TRY(check_room(sequence, tokens.size()));
  SLUICE_CHECK(!options.on_logits || options_.all_logits);
  SLUICE_CHECK(options.drafts == 0 ||
               (options.drafts <= options_.drafts && tokens.size() == 1 + options.drafts));
  if (sequence.adapter() == 0) return feed_with(sequence, tokens, options, nullptr);
  const auto adapter = parts_->adapters.acquire(sequence.adapter());
  if (!adapter) {
    sequence.reset();
    return tl::unexpected(adapter.error());
  }
  return feed_with(sequence, tokens, options, adapter->get());
}

Result<std::span<const float>> Engine::feed_with(model::SequenceState& sequence,
                                                 std::span<const std::int32_t> tokens,
                                                 const FeedOptions& options,
                                                 const model::Adapter* adapter) {
  Watcher watcher(*this, options, tokens.size());
  if (options.drafts > 0) return feed_drafts(sequence, tokens, options, adapter, watcher);
  std::span<const float> logits;
  for (std::size_t first = 0; first < tokens.size(); first += chunk()) {
    const std::size_t count = std::min(chunk(), tokens.size() - first);
    const bool last = first + count == tokens.size();
    const auto wanted = options.on_logits ? model::Logits::all
                        : last            ? model::Logits::last
                                          : model::Logits::none;
    watcher.begin_chunk(first, count);
    SLUICE_ASSIGN(logits, run_chunk({&sequence, tokens.subspan(first, count), wanted, adapter},
                                    watcher, options));
    if (!last && options.on_chunk) options.on_chunk(first + count);
  }
  return logits.last(shape().vocabulary);
}

/// One pass with drafts. What of it fails may be the affair of a draft that is wrong: an expert
/// that nobody else picks and that cannot be read, a number that overflows. No answer may end by
/// that, so the token before them is then computed alone, on the sequence as it was.
Result<std::span<const float>> Engine::feed_drafts(model::SequenceState& sequence,
                                                   std::span<const std::int32_t> tokens,
                                                   const FeedOptions& options,
                                                   const model::Adapter* adapter,
                                                   Watcher& watcher) {
  watcher.begin_chunk(0, tokens.size());
  {
    const std::size_t before = sequence.length();
    EmptiesUnlessDone guard(sequence);
    auto rows = run_pass({&sequence, tokens, model::Logits::all, adapter, options.drafts}, watcher,
                         options, drafted_);
    // A callback that fails does so after the pass, and is not asked again.
    const bool pass_failed = sequence.length() == before;
    if (!rows && (!pass_failed || rows.error().kind == ErrorKind::interrupted)) return rows;
    guard.done();
    if (rows) return rows;
    if (!std::exchange(told_of_failing_drafts_, true)) {
      log_note("{} (with tokens that were guessed, --draft; going on without them)",
               rows.error().message);
    }
  }
  watcher.begin_chunk(0, 1);
  return run_chunk({&sequence, tokens.first(1), model::Logits::last, adapter}, watcher, options);
}

/// One chunk, which `watcher` was told of. The sequence is empty if it does not come to its end.
Result<std::span<const float>> Engine::run_chunk(const model::Segment& segment, Watcher& watcher,
                                                 const FeedOptions& options) {
  EmptiesUnlessDone guard(*segment.state);
  auto result = run_pass(segment, watcher, options, segment.tokens.size() == 1 ? single_ : many_);
  if (result) guard.done();
  return result;
}

Result<std::span<const float>> Engine::run_pass(const model::Segment& segment, Watcher& watcher,
                                                const FeedOptions& options, PassTimes& times) {
  const auto start = Clock::now();
  const double waited = parts_->network->io_wait_s();
  auto result = parts_->network->run({{&segment, 1}, &watcher, options.cancellation});
  ++times.passes;
  times.positions += segment.tokens.size();
  times.wall_s += seconds_since(start);
  times.io_wait_s += parts_->network->io_wait_s() - waited;
  if (parts_->trace) parts_->trace->flush();
  Status status = watcher.status();
  if (result && status && options.on_logits) {
    status = options.on_logits(watcher.first(), *result);
  }
  if (!result || !status) return tl::unexpected(!result ? result.error() : status.error());
  return result;
}

void Engine::accept(model::SequenceState& sequence, std::size_t count) {
  const auto start = Clock::now();
  const std::size_t before = sequence.length();
  parts_->network->accept(count);
  SLUICE_CHECK(sequence.length() == before + count);
  drafted_.wall_s += seconds_since(start);
}

Statistics Engine::statistics(const TokenCounts& tokens) const {
  Statistics now;
  now.tokens = tokens;
  now.wall_s = single_.wall_s + many_.wall_s + drafted_.wall_s;
  now.io_wait_s = parts_->network->io_wait_s();
  const weights::ExpertStatistics experts = parts_->experts->statistics();
  now.expert_hits = experts.hits;
  now.expert_misses = experts.misses;
  now.guessed_bytes = experts.guessed_bytes;
  now.guessed_bytes_used = experts.guessed_bytes_used;
  now.adapters = parts_->adapters.statistics();
  now.gone_bytes = experts.gone_bytes + parts_->trunk->gone_bytes();
  now.most_gone_bytes = parts_->most_gone_bytes;
  now.peak_rss_bytes = peak_resident_memory();
  now.ram_budget_bytes = parts_->ledger.budget();
  now.resident_bytes = parts_->placement.resident_room + parts_->placement.bank_bytes();
  for (std::size_t tenant = 0; tenant < kTenants; ++tenant) {
    const auto each = static_cast<Tenant>(tenant);
    now.memory.emplace_back(name_of(each), parts_->ledger.most_charged(each));
  }
  now.reads = parts_->reader->statistics();
  for (const io::DriveStatistics& drive : now.reads.drives) {
    now.drive_temperatures.push_back(io::drive_temperature(drive.device));
  }
  const auto storage = storage_bytes_read();
  if (storage && parts_->storage_before) now.storage_bytes = *storage - *parts_->storage_before;
  predict_run(now);
  return now;
}

LiveStatistics Engine::live() const {
  LiveStatistics now;
  now.reads = parts_->reader->statistics();
  const weights::ExpertStatistics experts = parts_->experts->statistics();
  now.expert_hits = experts.hits;
  now.expert_misses = experts.misses;
  now.resident_bytes = resident_memory();
  for (std::size_t tenant = 0; tenant < kTenants; ++tenant) {
    const auto each = static_cast<Tenant>(tenant);
    now.memory.emplace_back(name_of(each), parts_->ledger.charged(each));
  }
  return now;
}

const weights::ExpertActivity* Engine::activity() const { return parts_->activity.get(); }

void Engine::predict_run(Statistics& now) const {
  double drives = 0;
  for (const io::DriveStatistics& drive : now.reads.drives) {
    if (drive.busy_s > 0) drives += static_cast<double>(drive.bytes) / drive.busy_s;
  }
  const TokenCounts& tokens = now.tokens;
  const Workload workload = {tokens.last_prompt_tokens + tokens.generated_tokens,
                             tokens.last_prompt_tokens};
  now.prediction =
      predict(*parts_->architecture, parts_->placement, chunk(),
              speeds_of(load_of(*parts_->architecture, workload.context), drives, single_, many_),
              workload);
  // The plan knows no drafts: how many come true is the text's affair.
  now.predicts_decode = tokens.decoded_tokens > 0 && options_.drafts == 0;
  now.predicts_ttft = tokens.last_prompt_tokens > 0 && tokens.generated_tokens > 0 &&
                      single_.passes + many_.passes > 0;
}

}  // namespace sluice::engine
