#include "engine/plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace sluice::engine {
namespace {

// What a run may take beyond the slowest of its parts: reads and arithmetic do not overlap wholly
// at the router and at the ends of a token.
constexpr double kOverhead = 1.08;

// Share of its 32 experts-in-a-chunk and more that a text of one kind does without, against flat
// routing: k3-nano's texts need 0.78 to 0.93 of the distinct experts.
constexpr double kLocalDistinct = 0.78;

// Help that is less than this is none.
constexpr double kWorthwhile = 0.95;

struct Point {
  double share;  ///< of a layer's experts that are kept
  double hits;
};

// The best domain of k3-nano's held-out texts: reuse from token to token (4 of 96 kept), then LRU.
constexpr std::array<Point, 6> kLocality = {
    {{0, 0}, {4.0 / 96, 0.177}, {0.10, 0.29}, {0.25, 0.493}, {0.50, 0.752}, {1, 1}}};

double real(std::uint64_t value) { return static_cast<double>(value); }

/// Bytes of experts that a token reads: the misses of its picks.
double missed_bytes(const Residence& residence, double (*hit_rate)(const Bank& bank)) {
  double sum = 0;
  for (const Bank& bank : residence.banks) {
    sum += (1 - hit_rate(bank)) * real(std::min(bank.top_k, bank.experts) * bank.expert_bytes);
  }
  return sum;
}

double overall_hit_rate(const Residence& residence, double (*hit_rate)(const Bank& bank)) {
  double hits = 0;
  double picks = 0;
  for (const Bank& bank : residence.banks) {
    hits += hit_rate(bank) * real(bank.top_k);
    picks += real(bank.top_k);
  }
  return picks > 0 ? hits / picks : 0;
}

/// One decoded token that reads `bytes`.
Times token_times(const ModelLoad& load, double bytes, const MachineSpeeds& speeds,
                  const Workload& workload) {
  Times times;
  times.drive_s = bytes / speeds.drive;
  const double state = 2 * real(load.state_bytes) +
                       load.state_bytes_per_position * static_cast<double>(workload.context);
  // What comes from a drive is written into memory once before it is read.
  times.memory_s = (real(load.weight_bytes()) + bytes + state) / speeds.memory;
  times.arithmetic_s =
      real(load.trunk_bytes + load.head_bytes) / speeds.plain +
      real(load.expert_bytes) / (load.packed_experts ? speeds.packed : speeds.plain);
  return times;
}

/// How a prompt goes through.
struct Prefill {
  bool cold = false;    ///< nothing is in memory at the start
  double distinct = 1;  ///< of flat routing's distinct experts
};

/// One chunk of `positions` positions, the `index`-th of the prompt.
Times chunk_times(const ModelLoad& load, const Residence& residence, const MachineSpeeds& speeds,
                  std::size_t positions, std::size_t index, const Prefill& prefill) {
  const bool first = prefill.cold && index == 0;
  const double streamed = real(residence.streamed_bytes - residence.streamed_head_bytes);
  const double from_drive = first ? real(load.trunk_bytes) : streamed;
  double used = 0;  // bytes of distinct experts
  double read = 0;
  for (const Bank& bank : residence.banks) {
    const double least = static_cast<double>(std::min(bank.top_k, bank.experts));
    const double bytes = std::max(least, distinct_experts(bank, positions) * prefill.distinct) *
                         real(bank.expert_bytes);
    used += bytes;
    read += first ? bytes : bytes * (1 - flat_hit_rate(bank));
  }
  Times times;
  times.drive_s = (from_drive + read) / speeds.drive;
  times.memory_s = (real(load.trunk_bytes) + used + from_drive + read) / speeds.memory;
  const double once = real(load.trunk_bytes) / speeds.plain +
                      used / (load.packed_experts ? speeds.packed : speeds.plain);
  const double all =
      load.multiplies_per_position * static_cast<double>(positions) / speeds.operations;
  times.arithmetic_s = std::max(once, all);
  return times;
}

struct Ttft {
  double seconds = 0;
  Limit limit = Limit::drive;
};

Ttft time_to_first_token(const ModelLoad& load, const Residence& residence,
                         const MachineSpeeds& speeds, std::size_t prompt, const Prefill& prefill) {
  Ttft result;
  double longest = 0;
  std::size_t index = 0;
  for (std::size_t done = 0; done < prompt; done += residence.chunk, ++index) {
    const std::size_t positions = std::min(residence.chunk, prompt - done);
    const Times times = chunk_times(load, residence, speeds, positions, index, prefill);
    result.seconds += times.longest();
    if (times.longest() <= longest) continue;
    longest = times.longest();
    result.limit = times.limit();
  }
  const double head = real(prefill.cold ? load.head_bytes : residence.streamed_head_bytes);
  result.seconds += std::max(head / speeds.drive, real(load.head_bytes) / speeds.plain);
  return result;
}

}  // namespace

std::string_view name_of(Limit limit) {
  switch (limit) {
    case Limit::drive:
      return "drive";
    case Limit::memory:
      return "memory bandwidth";
    case Limit::arithmetic:
      return "arithmetic";
  }
  return "?";
}

ModelLoad load_of(const model::Architecture& architecture, std::size_t context) {
  const model::Blueprint& blueprint = architecture.blueprint();
  const weights::Blocks& blocks = blueprint.blocks;
  ModelLoad load;
  for (weights::MatrixId id = 0; id < blocks.matrices.size(); ++id) {
    (id < blocks.first_head_matrix ? load.trunk_bytes : load.head_bytes) +=
        blocks.matrices[id].extent.length;
  }
  load.multiplies_per_position = real(blueprint.trunk_weights);
  for (std::size_t i = 0; i < blocks.expert_layers.size(); ++i) {
    const weights::ExpertLayer& layer = blocks.expert_layers[i];
    const std::uint64_t used = std::min(blocks.top_k, layer.experts.size());
    load.expert_bytes += used * layer.block_bytes();
    load.multiplies_per_position += real(used * blueprint.expert_weights[i]);
    // Less than a byte and a half each: not as they were trained.
    if (2 * layer.block_bytes() < 3 * blueprint.expert_weights[i]) load.packed_experts = true;
  }
  const model::EmbeddingTable& embedding = blueprint.embedding;
  if (embedding.rows > 0) load.embedding_bytes = embedding.extent.length / embedding.rows;
  load.state_bytes = architecture.state_bytes(0);
  // At this very context, since layers with a window keep no more than it; but over enough
  // positions that rounding to pages does not show.
  const std::size_t positions = std::max<std::size_t>(context, 256);
  load.state_bytes_per_position =
      real(architecture.state_bytes(positions) - load.state_bytes) / static_cast<double>(positions);
  return load;
}

std::size_t Residence::cached_experts() const {
  std::size_t sum = 0;
  for (const Bank& bank : banks) sum += bank.slots;
  return sum;
}

Residence residence_of(const model::Architecture& architecture, const weights::Placement& placement,
                       std::size_t chunk) {
  Residence residence;
  residence.chunk = chunk;
  residence.ring_bytes = placement.ring_bytes;
  residence.cache_bytes = placement.bank_bytes();
  const weights::Schedule& schedule = placement.schedule;
  for (std::size_t tile = 0; tile < schedule.tiles.size(); ++tile) {
    const std::uint64_t bytes = schedule.tiles[tile].extent.length;
    if (placement.resident[tile]) {
      residence.resident_bytes += bytes;
      continue;
    }
    residence.streamed_bytes += bytes;
    if (tile >= schedule.head_begin) residence.streamed_head_bytes += bytes;
  }
  const weights::Blocks& blocks = architecture.blueprint().blocks;
  for (std::size_t i = 0; i < blocks.expert_layers.size(); ++i) {
    const weights::ExpertLayer& layer = blocks.expert_layers[i];
    if (layer.experts.empty()) continue;
    residence.banks.push_back(
        {layer.experts.size(), blocks.top_k, placement.bank_slots[i], layer.block_bytes()});
  }
  return residence;
}

double flat_hit_rate(const Bank& bank) {
  return bank.experts == 0
             ? 0
             : std::min(1.0, static_cast<double>(bank.slots) / static_cast<double>(bank.experts));
}

double local_hit_rate(const Bank& bank) {
  const double share = flat_hit_rate(bank);
  std::size_t next = 1;
  while (next + 1 < kLocality.size() && kLocality[next].share < share) ++next;
  const Point& from = kLocality[next - 1];
  const Point& to = kLocality[next];
  const double way = (share - from.share) / (to.share - from.share);
  return std::max(share, from.hits + way * (to.hits - from.hits));
}

double distinct_experts(const Bank& bank, std::size_t positions) {
  if (bank.experts == 0) return 0;
  const auto experts = static_cast<double>(bank.experts);
  const double picked = std::min(1.0, static_cast<double>(bank.top_k) / experts);
  return experts * (1 - std::pow(1 - picked, static_cast<double>(positions)));
}

double Times::longest() const { return std::max({drive_s, memory_s, arithmetic_s}); }

Limit Times::limit() const {
  if (drive_s >= memory_s && drive_s >= arithmetic_s) return Limit::drive;
  return arithmetic_s >= memory_s ? Limit::arithmetic : Limit::memory;
}

Prediction predict(const ModelLoad& load, const Residence& residence, const MachineSpeeds& speeds,
                   const Workload& workload) {
  Prediction prediction;
  const double always = real(residence.streamed_bytes + load.embedding_bytes);
  prediction.hit_rate = {overall_hit_rate(residence, &flat_hit_rate),
                         overall_hit_rate(residence, &local_hit_rate)};
  prediction.bytes = {always + missed_bytes(residence, &local_hit_rate),
                      always + missed_bytes(residence, &flat_hit_rate)};
  prediction.token = token_times(load, prediction.bytes.high, speeds, workload);
  prediction.seconds = {token_times(load, prediction.bytes.low, speeds, workload).longest(),
                        prediction.token.longest() * kOverhead};
  const Ttft best = time_to_first_token(load, residence, speeds, workload.prompt,
                                        {.cold = false, .distinct = kLocalDistinct});
  const Ttft worst =
      time_to_first_token(load, residence, speeds, workload.prompt, {.cold = true, .distinct = 1});
  prediction.ttft_s = {best.seconds, worst.seconds * kOverhead};
  prediction.ttft_limit = worst.limit;
  return prediction;
}

Prediction predict(const model::Architecture& architecture, const weights::Placement& placement,
                   std::size_t chunk, const MachineSpeeds& speeds, const Workload& workload) {
  return predict(load_of(architecture, workload.context),
                 residence_of(architecture, placement, chunk), speeds, workload);
}

MachineSpeeds speeds_of(const ModelLoad& load, double drive_bytes_per_s, const PassTimes& single,
                        const PassTimes& many) {
  const double free = std::numeric_limits<double>::infinity();
  const auto rate = [free](double amount, const PassTimes& times) {
    return times.compute_s() > 0 ? amount / times.compute_s() : free;
  };
  MachineSpeeds speeds;
  speeds.drive = drive_bytes_per_s > 0 ? drive_bytes_per_s : free;
  speeds.memory = free;  // is part of the others
  speeds.plain = rate(real(load.weight_bytes()) * real(single.passes), single);
  speeds.packed = speeds.plain;
  const PassTimes& most = many.passes > 0 ? many : single;
  speeds.operations = rate(load.multiplies_per_position * real(most.positions), most);
  return speeds;
}

Advice advise(const ModelLoad& load, const Residence& residence,
              const std::optional<Residence>& doubled, const MachineSpeeds& speeds,
              const Workload& workload) {
  const double now = predict(load, residence, speeds, workload).seconds.high;
  Advice best = {Advice::Change::nothing, now};
  const auto consider = [&](Advice::Change change, const Residence& with, const MachineSpeeds& at) {
    const double seconds = predict(load, with, at, workload).seconds.high;
    if (seconds < best.seconds && seconds < now * kWorthwhile) best = {change, seconds};
  };
  MachineSpeeds faster = speeds;
  faster.drive *= 2;
  consider(Advice::Change::drive, residence, faster);
  if (doubled) consider(Advice::Change::ram, *doubled, speeds);
  faster = speeds;
  faster.memory *= 2;
  consider(Advice::Change::memory, residence, faster);
  faster = speeds;
  faster.plain *= 2;
  faster.packed *= 2;
  faster.operations *= 2;
  consider(Advice::Change::cores, residence, faster);
  return best;
}

}  // namespace sluice::engine
