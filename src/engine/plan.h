// What a machine will do with a model, predicted from bytes and speeds. Data in, data out: nothing
// here reads a file or a clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model/network.h"
#include "weights/placement.h"

namespace sluice::engine {

/// What a machine can do, all drives and all threads together. Bytes are of weights as stored.
struct MachineSpeeds {
  double drive = 0;       ///< bytes/s of random reads as large as an expert
  double memory = 0;      ///< bytes/s that a loop reads which does nothing else
  double plain = 0;       ///< bytes/s of bf16 weights through the kernels, for one position
  double packed = 0;      ///< bytes/s of MXFP4 weights through the kernels, for one position
  double operations = 0;  ///< multiply-adds per second when a weight serves many positions
};

/// What a model asks of any machine for a token, whatever the memory.
struct ModelLoad {
  std::uint64_t trunk_bytes = 0;      ///< matrices of all layers
  std::uint64_t head_bytes = 0;       ///< matrices of the output head
  std::uint64_t embedding_bytes = 0;  ///< one row
  std::uint64_t expert_bytes = 0;     ///< of all picks of a token
  bool packed_experts = false;
  std::uint64_t state_bytes = 0;        ///< recurrent state: read and written by every token
  double state_bytes_per_position = 0;  ///< KV cache: read for every position of the context
  double multiplies_per_position = 0;   ///< weights that a position is multiplied with, no head
  std::uint64_t weight_bytes() const { return trunk_bytes + head_bytes + expert_bytes; }
};
/// state_bytes_per_position is the mean over a context of this length: windows end it for a layer.
ModelLoad load_of(const model::Architecture& architecture, std::size_t context);

/// The experts of one layer and how many of them there is room for.
struct Bank {
  std::size_t experts = 0;
  std::size_t top_k = 0;
  std::size_t slots = 0;
  std::uint64_t expert_bytes = 0;  ///< of one
};

/// Where the bytes of a model live at one memory size.
struct Residence {
  std::size_t chunk = 1;                  ///< positions per prefill pass
  std::uint64_t resident_bytes = 0;       ///< of trunk and head, kept for the whole run
  std::uint64_t streamed_bytes = 0;       ///< of trunk and head, read for every token
  std::uint64_t streamed_head_bytes = 0;  ///< of these, in the head: once per prompt
  std::uint64_t ring_bytes = 0;           ///< room in which they pass through
  std::uint64_t cache_bytes = 0;          ///< room for experts that stay until better ones come
  std::vector<Bank> banks;                ///< one per layer with experts
  std::size_t cached_experts() const;
};
Residence residence_of(const model::Architecture& architecture, const weights::Placement& placement,
                       std::size_t chunk);

/// Share of a layer's picks that are found in its bank. Flat routing (every expert equally likely,
/// whatever came before) finds slots/experts. Real texts pick some experts more often, and again
/// soon: with_locality() is the most that was measured on k3-nano's held-out texts (a domain's
/// share of hits by the share of experts kept), the upper end of what to hope for.
double flat_hit_rate(const Bank& bank);
double local_hit_rate(const Bank& bank);

/// Distinct experts that `positions` positions pick under flat routing (SPEC 8): E(1-(1-k/E)^T).
double distinct_experts(const Bank& bank, std::size_t positions);

enum class Limit : std::uint8_t { drive, memory, arithmetic };
std::string_view name_of(Limit limit);

struct Range {
  double low = 0;
  double high = 0;
};

/// A time is that of the slowest of three things which go on at once.
struct Times {
  double drive_s = 0;
  double memory_s = 0;
  double arithmetic_s = 0;
  double longest() const;
  Limit limit() const;
};

struct Prediction {
  Times token;     ///< flat routing, no overhead
  Range seconds;   ///< per decoded token: local routing, and flat with overhead
  Range bytes;     ///< read from the drives per decoded token: local, flat
  Range hit_rate;  ///< of picked experts: flat, local
  Range ttft_s;    ///< weights in place and local routing; from the program's start and flat
  Limit ttft_limit = Limit::drive;  ///< of the upper end
};

/// What is asked of a plan.
struct Workload {
  std::size_t context = 4096;  ///< positions that a decoded token looks back on, for the KV cache
  std::size_t prompt = 128;    ///< positions before the first token
};

/// Attention over the context is counted as bytes of the KV cache, not as arithmetic.
Prediction predict(const ModelLoad& load, const Residence& residence, const MachineSpeeds& speeds,
                   const Workload& workload);
/// The same for a placement that is there.
Prediction predict(const model::Architecture& architecture, const weights::Placement& placement,
                   std::size_t chunk, const MachineSpeeds& speeds, const Workload& workload);

/// Passes of one kind and their time.
struct PassTimes {
  std::uint64_t passes = 0;
  std::uint64_t positions = 0;
  double wall_s = 0;
  double io_wait_s = 0;
  double compute_s() const { return wall_s - io_wait_s; }
};

/// What a run showed of the machine: the drives while they were busy, and the arithmetic (memory
/// included) of passes of one position and of many. What did not run is taken to cost nothing.
MachineSpeeds speeds_of(const ModelLoad& load, double drive_bytes_per_s, const PassTimes& single,
                        const PassTimes& many);

/// The one change that would help a decoded token most.
struct Advice {
  enum class Change : std::uint8_t { nothing, drive, ram, memory, cores };
  Change change = Change::nothing;
  double seconds = 0;  ///< per token after it (upper end); before it if nothing helps
};

/// Tries twice the drive speed, twice the memory (`doubled`, if it fits together), twice the
/// memory bandwidth and twice the cores. Less than a twentieth is no help.
Advice advise(const ModelLoad& load, const Residence& residence,
              const std::optional<Residence>& doubled, const MachineSpeeds& speeds,
              const Workload& workload);

}  // namespace sluice::engine
