#include "model/moe.h"

#include <algorithm>

#include "kernels/ops.h"
#include "model/routed_experts.h"

namespace sluice::model {
namespace {

std::size_t expert_input_width(const MoeConfig& config, std::size_t hidden) {
  return config.latent > 0 ? config.latent : hidden;
}

/// Picks experts for one row of logits, which become scores.
void route_row(const MoeWeights& weights, const MoeConfig& config, const VectorTable& vectors,
               const MoeScratch& scratch, std::size_t row) {
  const kernels::Router& router = config.router;
  float* const logits = scratch.logits + row * router.experts;
  if (weights.router_bias) kernels::add(vectors[*weights.router_bias], router.experts, logits);
  kernels::route(router, logits, weights.choice_bias ? vectors[*weights.choice_bias] : nullptr,
                 scratch.ids + row * router.top_k, scratch.weights + row * router.top_k);
}

}  // namespace

MoeWeights find_moe(BlueprintBuilder& builder, const MoeNames& names, const MoeConfig& config,
                    std::size_t hidden, std::size_t layer) {
  const std::size_t width = expert_input_width(config, hidden);
  const auto optional_vector = [&](const std::string& name) {
    return name.empty() ? std::nullopt : std::optional(builder.vector(name, config.router.experts));
  };
  MoeWeights w;
  w.layer = layer;
  // In the order in which run_moe() uses them.
  w.router = builder.matrix(names.router, config.router.experts, hidden);
  w.router_bias = optional_vector(names.router_bias);
  w.choice_bias = optional_vector(names.choice_bias);
  if (config.latent > 0) {
    w.latent_down = builder.matrix(names.latent_down, config.latent, hidden);
  }
  if (config.shared_width > 0) {
    w.shared = find_mlp(builder, names.shared, config.shared_width, hidden);
  }
  if (config.latent > 0) {
    if (config.latent_norm) w.latent_norm = builder.vector(names.latent_norm, config.latent);
    w.latent_up = builder.matrix(names.latent_up, hidden, config.latent);
  }
  WantedExperts experts = names.experts;
  experts.count = config.router.experts;
  experts.width = width;
  experts.inner = config.width;
  experts.bias = config.expert_bias;
  w.experts = builder.experts(experts);
  return w;
}

MoeScratch lay_out_moe(Arena& arena, const MoeConfig& config, std::size_t hidden,
                       std::size_t positions) {
  const std::size_t width = expert_input_width(config, hidden);
  const std::size_t top_k = config.router.top_k;
  MoeScratch s{};
  s.logits = arena.take(positions * config.router.experts);
  s.weights = arena.take(positions * top_k);
  s.ids = reinterpret_cast<std::int32_t*>(arena.take(positions * top_k));
  static_assert(sizeof(Pick) == 2 * sizeof(float) && alignof(Pick) <= alignof(float));
  s.picks = reinterpret_cast<Pick*>(arena.take(2 * positions * top_k));
  s.latent = arena.take(positions * width);
  s.latent_prepared = arena.take(kernels::prepared_floats(width, positions));
  // Also where the way back from the latent space is computed.
  s.contributions = arena.take(positions * std::max(top_k * width, hidden));
  // The shared experts are done before the first routed one is computed: they share the room.
  const std::size_t mark = arena.mark();
  if (config.shared_width > 0) s.shared = lay_out_mlp(arena, config.shared_width, positions);
  arena.back_to(mark);
  s.gathered = arena.take(positions * width);
  s.gate = arena.take(positions * config.width);
  s.up = arena.take(positions * config.width);
  s.pairs = arena.take(config.by_turns ? 2 * positions * config.width : 0);
  s.biases = arena.take(config.expert_bias ? 2 * config.width + width : 0);
  s.expert_prepared =
      arena.take(kernels::prepared_floats(std::max(width, config.width), positions));
  return s;
}

Status run_moe(const MoeWeights& weights, const MoeConfig& config, const kernels::Glu& glu,
               float epsilon, const VectorTable& vectors, Executor& executor,
               const MoeScratch& scratch, Input& x, float* y) {
  const std::size_t positions = x.positions();
  const std::size_t hidden = x.columns();
  const std::size_t width = expert_input_width(config, hidden);
  SLUICE_TRY(executor.multiply(weights.router, x, scratch.logits));
  for (std::size_t row = 0; row < positions; ++row) {
    route_row(weights, config, vectors, scratch, row);
  }
  const Picks picks(scratch.ids, positions, config.router, scratch.picks);
  executor.experts().begin(weights.layer, picks.wanted());

  // While the experts are on their way: what every row needs anyway.
  const float* z = x.values();
  if (config.latent > 0) {
    SLUICE_TRY(executor.multiply(weights.latent_down, x, scratch.latent));
    z = scratch.latent;
  }
  if (config.shared_width > 0) {
    SLUICE_TRY(run_mlp(weights.shared, glu, executor, scratch.shared, x, y));
  } else {
    std::fill_n(y, positions * hidden, 0.0f);
  }

  SLUICE_TRY(run_routed_experts(weights, config, glu, executor, scratch, picks, width, z));
  float* const sum = scratch.latent;  // z is used up
  sum_contributions(picks, config, scratch, width, positions, sum);
  if (config.latent == 0) {
    kernels::add(sum, positions * hidden, y);
    return {};
  }
  for (std::size_t row = 0; row < positions && config.latent_norm; ++row) {
    kernels::rms_norm(sum + row * width, vectors[weights.latent_norm], width, epsilon,
                      sum + row * width);
  }
  Input latent(sum, width, positions, scratch.latent_prepared);
  float* const up = scratch.contributions;  // summed up, and at least [positions, hidden]
  SLUICE_TRY(executor.multiply(weights.latent_up, latent, up));
  kernels::add(up, positions * hidden, y);
  return {};
}

void guess_experts(const MoeWeights& weights, const MoeConfig& config, const VectorTable& vectors,
                   Executor& executor, const MoeScratch& scratch, Input& x, std::size_t most) {
  const TraceSpan traced = executor.span("lookahead", "lookahead");
  if (!executor.multiply_early(weights.router, x, scratch.logits)) return;
  route_row(weights, config, vectors, scratch, 0);
  executor.experts().guess(weights.layer, {scratch.ids, std::min(most, config.router.top_k)});
}

}  // namespace sluice::model
