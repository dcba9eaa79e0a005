// How an engine comes to be.
#include <malloc.h>

#include <limits>
#include <utility>

#include "base/log.h"
#include "base/memory_info.h"
#include "base/process_io.h"
#include "base/size.h"
#include "engine/budget.h"
#include "engine/engine_parts.h"
#include "engine/learn.h"
#include "engine/machine.h"
#include "engine/model_digest.h"
#include "engine/open_files.h"
#include "engine/traced_reader.h"
#include "model/registry.h"

namespace sluice::engine {
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
    const auto ram = options.ram.value_or(std::numeric_limits<std::uint64_t>::max());
    SLUICE_ASSIGN(model.digest, model_digest(files, *reader, options.cache_format, ram));
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

/// What sequences keep of every position.
void choose_cache(const EngineOptions& options, model::Architecture& architecture) {
  architecture.cache_as(options.cache_format);
  if (options.cache_format == kernels::WeightFormat::f32) return;
  log_note(
      "--kv-type {}: keys and values are rounded to less than they were computed with; this run "
      "is not exact",
      kernels::cache_format_name(options.cache_format));
}

/// Memory that is not there is no budget: weights that are kept in it would be swapped out.
std::optional<std::uint64_t> within_machine(std::optional<std::uint64_t> ram) {
  const auto group = memory_limit();
  const std::uint64_t most = group.value_or(total_memory());
  if (!ram || most == 0 || *ram <= most) return ram;
  log_note("--ram {}: more than the {} has, {}: held to that", format_size(*ram),
           group ? "control group" : "machine", format_size(most));
  return most;
}

}  // namespace

io::ReaderOptions reader_options(const EngineOptions& options) {
  io::ReaderOptions result;
  if (options.read_bytes) result.piece_bytes = *options.read_bytes;
  if (options.queue_depth) result.threads = result.queue_depth = *options.queue_depth;
  return result;
}

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions& asked) {
  if (asked.drafts > model::kMostDrafts) {
    return fail(ErrorKind::usage, "--draft {}: expected at most {}", asked.drafts,
                model::kMostDrafts);
  }
  EngineOptions options = asked;
  if (options.threads == 0) options.threads = usable_cores();
  options.ram = within_machine(options.ram);
  auto threads = std::make_unique<ThreadPool>(options.threads);
  // The reader counts from its first read on, and so does this.
  const auto storage_before = storage_bytes_read();
  SLUICE_ASSIGN(Reading reading, open_reading(options));
  const std::unique_ptr<io::Reader>& reader = reading.reader;
  SLUICE_ASSIGN(OpenModel model, open_model(options, reading.reader));
  choose_cache(options, *model.architecture);
  const model::Shape& shape = model.architecture->shape();
  SLUICE_ASSIGN(options.context, context_for(options, shape));
  SLUICE_TRY(check_length(0, options.prompt, options.context, shape));
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
  auto parts = std::make_unique<Parts>(budget.ram, storage_before);
  parts->trace = std::move(reading.trace);
  parts->threads = std::move(threads);
  parts->reader = std::move(reading.reader);
  parts->architecture = std::move(model.architecture);
  parts->fingerprint = model.fingerprint;
  parts->digest = model.digest;
  parts->adapters = std::move(model.adapters);
  SLUICE_TRY(furnish(*parts, options, budget, reading.traced));
  return std::unique_ptr<Engine>(new Engine(std::move(options), std::move(parts)));
}

/// Everything that has its room in the budget, in it.
Status Engine::furnish(Parts& parts, const EngineOptions& options, const Budget& budget,
                       TracedReader* traced) {
  MemoryLedger& ledger = parts.ledger;
  parts.adapters.load_with(*parts.reader, budget.needs.adapters, ledger);
  SLUICE_TRY(ledger.charge(Tenant::program, budget.needs.program));
  SLUICE_TRY(ledger.charge(Tenant::thread_stacks, budget.needs.thread_stacks));
  const model::Blueprint& blueprint = parts.architecture->blueprint();
  SLUICE_ASSIGN(auto vectors, model::VectorTable::load(blueprint, *parts.reader, ledger));
  const weights::ExpertUse known = recall(options, parts.fingerprint, blueprint.blocks);
  weights::ReadShape shape;
  shape.ring_bytes = options.ring;
  shape.trunk_share = options.trunk_share;
  SLUICE_ASSIGN(parts.placement,
                weights::place(blueprint.blocks, *parts.reader, shape,
                               ledger.available() - budget.needs.state - budget.needs.activations -
                                   budget.needs.adapters,
                               known));
  malloc_trim(0);  // what was ranked and weighed on the way is in no budget
  if (traced != nullptr) {
    traced->name_blocks(namer_for(blueprint.blocks, parts.placement, parts.adapters));
  }
  SLUICE_ASSIGN(parts.trunk, weights::TrunkStream::create(blueprint.blocks, parts.placement,
                                                          *parts.reader, ledger));
  SLUICE_ASSIGN(parts.experts, weights::ExpertBanks::create(blueprint.blocks, parts.placement,
                                                            *parts.reader, ledger));
  if (!known.empty()) parts.experts->start_from(known);
  if (options.watch_experts) {
    parts.activity = std::make_unique<weights::ExpertActivity>(blueprint.blocks);
    parts.experts->watch_with(*parts.activity);
  }
  parts.guard = std::make_unique<PressureGuard>(options.memory_source
                                                    ? options.memory_source()
                                                    : system_memory(options.io != io::IoMode::mmap),
                                                budget.ram);
  const model::Resources resources = {*parts.threads,   *parts.reader, *parts.trunk,
                                      *parts.experts,   ledger,        parts.trace.get(),
                                      options.lookahead};
  SLUICE_ASSIGN(parts.network,
                parts.architecture->make_network(
                    resources, limits_for(options, budget.chunk, parts.adapters.needs().rank),
                    std::move(vectors)));
  return {};
}

}  // namespace sluice::engine
