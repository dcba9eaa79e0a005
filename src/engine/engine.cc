#include "engine/engine.h"

#include <malloc.h>

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory_info.h"
#include "base/process_io.h"
#include "base/size.h"
#include "base/thread_pool.h"
#include "base/trace.h"
#include "engine/adapter_pool.h"
#include "engine/budget.h"
#include "engine/learn.h"
#include "engine/machine.h"
#include "engine/model_digest.h"
#include "engine/open_files.h"
#include "engine/pressure.h"
#include "engine/traced_reader.h"
#include "io/drive_temperature.h"
#include "model/registry.h"
#include "weights/expert_banks.h"
#include "weights/placement.h"
#include "weights/trunk_stream.h"

namespace sluice::engine {

/// Everything an engine is made of, in the order of making: what is later uses what is earlier.
struct Engine::Parts {
  explicit Parts(std::uint64_t ram) : ledger(ram) {}

  MemoryLedger ledger;
  std::unique_ptr<Trace> trace;
  std::unique_ptr<ThreadPool> threads;
  std::unique_ptr<io::Reader> reader;
  std::unique_ptr<model::Architecture> architecture;
  weights::Placement placement;
  std::uint64_t fingerprint = 0;  // of the model, for its history; 0: none is kept
  std::uint64_t digest = 0;
  std::unique_ptr<PressureGuard> guard;
  std::uint64_t most_gone_bytes = 0;
  std::unique_ptr<weights::TrunkStream> trunk;
  std::unique_ptr<weights::ExpertActivity> activity;
  std::unique_ptr<weights::ExpertBanks> experts;
  std::unique_ptr<model::Network> network;
  AdapterPool adapters;
  /// What the kernel had counted before any weight was read.
  const std::optional<std::uint64_t> storage_before = storage_bytes_read();
};

namespace {

Result<std::size_t> context_for(const EngineOptions& options, const model::Shape& shape) {
  if (options.context <= shape.max_positions) return options.context;
  if (!options.context_is_asked) return shape.max_positions;
  return fail(ErrorKind::usage, "--ctx {}: this model was made for at most {} positions",
              options.context, shape.max_positions);
}

/// The reader, and what writes down what it reads, if that is wanted.
struct Reading {
  std::unique_ptr<Trace> trace;
  std::unique_ptr<io::Reader> reader;
  TracedReader* traced = nullptr;  // the reader, or null
};

Result<Reading> open_reading(const EngineOptions& options) {
  Reading reading;
  SLUICE_ASSIGN(reading.reader, io::make_reader(options.io, reader_options(options)));
  if (options.wrap_reader) reading.reader = options.wrap_reader(std::move(reading.reader));
  if (options.trace.empty()) return reading;
  SLUICE_ASSIGN(reading.trace, Trace::create(options.trace));
  auto traced = make_traced_reader(std::move(reading.reader), *reading.trace);
  reading.traced = traced.get();
  reading.reader = std::move(traced);
  return reading;
}

struct OpenModel {
  std::unique_ptr<model::Architecture> architecture;
  std::uint64_t fingerprint = 0;
  std::uint64_t digest = 0;
  AdapterPool adapters;
};

Status open_adapters(const EngineOptions& options, const store::Checkpoint& checkpoint,
                     io::Reader& reader, OpenModel& model) {
  if (!options.adapters.empty() && checkpoint.metadata() != nullptr) {
    return fail(ErrorKind::usage,
                "adapters are for models in safetensors: the tensors of a GGUF file have other "
                "names and another order than an adapter is trained for");
  }
  SLUICE_ASSIGN(model.adapters, AdapterPool::open(options.adapters, model.architecture->blueprint(),
                                                  reader, options.identify));
  return {};
}

Result<OpenModel> open_model(const EngineOptions& options, std::unique_ptr<io::Reader>& reader) {
  SLUICE_ASSIGN(const OpenedFiles files, open_files(options.model, options.model_folders, reader));
  const store::Checkpoint& checkpoint = files.checkpoint;
  for (const std::string& note : checkpoint.notes()) log_note("{}", note);
  OpenModel model;
  SLUICE_ASSIGN(model.architecture, model::open_architecture(checkpoint, files.ids));
  if (!options.history.empty()) {
    model.fingerprint = fingerprint_of(checkpoint.folder(), checkpoint.files());
  }
  if (options.identify) {
    SLUICE_ASSIGN(model.digest, model_digest(files, *reader));
  }
  SLUICE_TRY(open_adapters(options, checkpoint, *reader, model));
  return model;
}

/// What earlier runs of the model saw; empty if that is not known.
weights::ExpertUse recall(const EngineOptions& options, std::uint64_t fingerprint,
                          const weights::Blocks& blocks) {
  if (fingerprint == 0) return {};
  auto use = load_history(history_file(options.history, fingerprint), fingerprint, blocks);
  if (use) return std::move(*use);
  log_note("{}", use.error().message);
  return {};
}

/// All must outlive what is returned.
BlockNamer namer_for(const weights::Blocks& blocks, const weights::Placement& placement,
                     const AdapterPool& adapters) {
  return [&blocks, &placement, &adapters](const io::ReadRequest& request) -> std::string {
    switch (request.purpose) {
      case io::Purpose::trunk: {
        const weights::TileSpan& tile = placement.schedule.tiles[request.label];
        return fmt::format("{}, rows {} to {}", blocks.matrices[tile.matrix].name, tile.first_row,
                           tile.first_row + tile.rows - 1);
      }
      case io::Purpose::expert:
        return fmt::format("layer {}, expert {}", request.label >> 32,
                           static_cast<std::uint32_t>(request.label));
      case io::Purpose::other: {
        const std::string adapter = adapters.name_in(request.extent.file);
        return adapter.empty() ? "embedding row" : "adapter " + adapter;
      }
    }
    return "?";
  };
}

}  // namespace

io::ReaderOptions reader_options(const EngineOptions& options) {
  io::ReaderOptions result;
  if (options.read_bytes) result.piece_bytes = *options.read_bytes;
  if (options.queue_depth) result.threads = result.queue_depth = *options.queue_depth;
  return result;
}

Engine::Engine(EngineOptions options, std::unique_ptr<Parts> parts)
    : options_(std::move(options)), parts_(std::move(parts)) {}

Engine::~Engine() {
  if (parts_->fingerprint == 0 || single_.passes + many_.passes == 0) return;
  const Status saved = save_history(history_file(options_.history, parts_->fingerprint),
                                    parts_->fingerprint, parts_->experts->use());
  if (!saved) log_note("{}", saved.error().message);
}

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions& asked) {
  EngineOptions options = asked;
  if (options.threads == 0) options.threads = usable_cores();
  auto threads = std::make_unique<ThreadPool>(options.threads);
  SLUICE_ASSIGN(Reading reading, open_reading(options));
  const std::unique_ptr<io::Reader>& reader = reading.reader;
  SLUICE_ASSIGN(OpenModel model, open_model(options, reading.reader));
  model.architecture->cache_as(options.cache_format);
  if (options.cache_format != kernels::WeightFormat::f32) {
    log_note(
        "--kv-type {}: keys and values are rounded to less than they were computed with; this run "
        "is not exact",
        kernels::cache_format_name(options.cache_format));
  }
  SLUICE_ASSIGN(options.context, context_for(options, model.architecture->shape()));
  // The directory of names is gone; what it held must not count against the budget.
  malloc_trim(0);

  SLUICE_ASSIGN(const Budget budget,
                draw_up_budget(options, *model.architecture, *reader, options.threads,
                               threads->stack_bytes() + reader->memory_bytes() +
                                   (reading.trace ? Trace::memory_bytes() : 0),
                               model.adapters.needs()));
  options.ram = budget.ram;
  options.chunk = budget.chunk;
  options.saved_states = budget.saved_states;
  options.adapter_ram = budget.needs.adapters;
  auto parts = std::make_unique<Parts>(budget.ram);
  parts->trace = std::move(reading.trace);
  parts->threads = std::move(threads);
  parts->reader = std::move(reading.reader);
  parts->architecture = std::move(model.architecture);
  parts->fingerprint = model.fingerprint;
  parts->digest = model.digest;
  MemoryLedger& ledger = parts->ledger;
  parts->adapters = std::move(model.adapters);
  parts->adapters.load_with(*parts->reader, budget.needs.adapters, ledger);
  SLUICE_TRY(ledger.charge(Tenant::program, budget.needs.program));
  SLUICE_TRY(ledger.charge(Tenant::thread_stacks, budget.needs.thread_stacks));
  const model::Blueprint& blueprint = parts->architecture->blueprint();
  SLUICE_ASSIGN(auto vectors, model::VectorTable::load(blueprint, *parts->reader, ledger));
  const weights::ExpertUse known = recall(options, parts->fingerprint, blueprint.blocks);
  weights::ReadShape shape;
  shape.ring_bytes = options.ring;
  shape.trunk_share = options.trunk_share;
  SLUICE_ASSIGN(parts->placement,
                weights::place(blueprint.blocks, *parts->reader, shape,
                               ledger.available() - budget.needs.state - budget.needs.activations -
                                   budget.needs.adapters,
                               known));
  if (reading.traced != nullptr) {
    reading.traced->name_blocks(namer_for(blueprint.blocks, parts->placement, parts->adapters));
  }
  SLUICE_ASSIGN(parts->trunk, weights::TrunkStream::create(blueprint.blocks, parts->placement,
                                                           *parts->reader, ledger));
  SLUICE_ASSIGN(parts->experts, weights::ExpertBanks::create(blueprint.blocks, parts->placement,
                                                             *parts->reader, ledger));
  if (!known.empty()) parts->experts->start_from(known);
  if (options.watch_experts) {
    parts->activity = std::make_unique<weights::ExpertActivity>(blueprint.blocks);
    parts->experts->watch_with(*parts->activity);
  }
  parts->guard = std::make_unique<PressureGuard>(
      options.memory_source ? options.memory_source()
                            : system_memory(options.io != io::IoMode::mmap),
      budget.ram);
  const model::Resources resources = {*parts->threads,  *parts->reader, *parts->trunk,
                                      *parts->experts,  ledger,         parts->trace.get(),
                                      options.lookahead};
  SLUICE_ASSIGN(parts->network,
                parts->architecture->make_network(
                    resources, limits_for(options, budget.chunk, parts->adapters.needs().rank),
                    std::move(vectors)));
  return std::unique_ptr<Engine>(new Engine(std::move(options), std::move(parts)));
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

Status Engine::check_room(const model::SequenceState& sequence, std::size_t tokens) const {
  const std::size_t length = sequence.length() + tokens;
  if (length <= sequence.context()) return {};
  const std::string after =
      sequence.length() > 0 ? fmt::format(" after {}", sequence.length()) : std::string();
  if (length > shape().max_positions) {
    return fail(ErrorKind::memory,
                "{} tokens{} do not fit: this model was made for at most {} positions; shorten the "
                "text, nothing of it is cut",
                tokens, after, shape().max_positions);
  }
  return fail(ErrorKind::memory,
              "{} tokens{} do not fit into the context of {}; --ctx {} is the least that holds "
              "them",
              tokens, after, sequence.context(), length);
}

Result<std::span<const float>> Engine::feed(model::SequenceState& sequence,
                                            std::span<const std::int32_t> tokens,
                                            const FeedOptions& options) {
  SLUICE_CHECK(!tokens.empty());
  SLUICE_TRY(check_room(sequence, tokens.size()));
  SLUICE_CHECK(!options.on_logits || options_.all_logits);
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
  std::span<const float> logits;
  for (std::size_t first = 0; first < tokens.size(); first += chunk()) {
    const std::size_t count = std::min(chunk(), tokens.size() - first);
    const bool last = first + count == tokens.size();
    const auto wanted = options.on_logits ? model::Logits::all
                        : last            ? model::Logits::last
                                          : model::Logits::none;
    const model::Segment segment = {&sequence, tokens.subspan(first, count), wanted, adapter};
    watcher.begin_chunk(first, count);
    const auto start = Clock::now();
    const double waited = parts_->network->io_wait_s();
    auto result = parts_->network->run({{&segment, 1}, &watcher, options.cancellation});
    PassTimes& times = count == 1 ? single_ : many_;
    ++times.passes;
    times.positions += count;
    times.wall_s += seconds_since(start);
    times.io_wait_s += parts_->network->io_wait_s() - waited;
    if (parts_->trace) parts_->trace->flush();
    Status status = watcher.status();
    if (result && status && options.on_logits) status = options.on_logits(first, *result);
    if (!result || !status) {
      sequence.reset();
      return tl::unexpected(!result ? result.error() : status.error());
    }
    logits = *result;
  }
  return logits.last(shape().vocabulary);
}

Statistics Engine::statistics(const TokenCounts& tokens) const {
  Statistics now;
  now.tokens = tokens;
  now.wall_s = single_.wall_s + many_.wall_s;
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
              speeds_of(load_of(*parts_->architecture), drives, single_, many_), workload);
  now.predicts_decode = tokens.decode_passes > 0;
  now.predicts_ttft = tokens.last_prompt_tokens > 0 && tokens.generated_tokens > 0;
}

}  // namespace sluice::engine
