#include "model/moe.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/ops.h"

namespace sluice::model {
namespace {

std::size_t expert_input_width(const MoeConfig& config, std::size_t hidden) {
  return config.latent > 0 ? config.latent : hidden;
}

/// Which rows want which expert: the picks of a pass, grouped by expert in order of id.
class Picks {
 public:
  struct Pick {
    std::size_t row;
    std::size_t slot;  // which of the row's picks
  };

  Picks(const std::int32_t* ids, std::size_t positions, const kernels::Router& router)
      : first_(router.experts + 1, 0), picks_(positions * router.top_k) {
    const std::size_t top_k = router.top_k;
    for (std::size_t i = 0; i < positions * top_k; ++i) ++first_[index(ids[i]) + 1];
    for (std::size_t e = 0; e < router.experts; ++e) {
      if (first_[e + 1] > 0) wanted_.push_back(static_cast<std::int32_t>(e));
      first_[e + 1] += first_[e];
    }
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    for (std::size_t row = 0; row < positions; ++row) {
      for (std::size_t slot = 0; slot < top_k; ++slot) {
        picks_[next[index(ids[row * top_k + slot])]++] = {row, slot};
      }
    }
  }

  /// Distinct experts, ascending.
  std::span<const std::int32_t> wanted() const { return wanted_; }
  /// The rows that want this expert.
  std::span<const Pick> of(std::int32_t expert) const {
    const std::size_t e = index(expert);
    return std::span(picks_).subspan(first_[e], first_[e + 1] - first_[e]);
  }
  /// Where the expert's contributions begin, in rows of width W: contributions lie in the order
  /// of expert ids.
  std::size_t first(std::int32_t expert) const { return first_[index(expert)]; }
  std::span<const Pick> all() const { return picks_; }

 private:
  static std::size_t index(std::int32_t id) { return static_cast<std::size_t>(id); }
  std::vector<std::size_t> first_;
  std::vector<Pick> picks_;
  std::vector<std::int32_t> wanted_;
};

/// The matrices of an expert in memory.
struct ExpertRows {
  kernels::Rows gate, down, up;

  ExpertRows(const weights::ReadyExpert& expert, kernels::WeightFormat format, std::size_t width,
             std::size_t inner) {
    const bool packed = format == kernels::WeightFormat::mxfp4;
    const auto rows = [&](std::size_t matrix, std::size_t count, std::size_t columns) {
      return packed ? kernels::Rows{format, expert.part[2 * matrix], expert.part[2 * matrix + 1],
                                    count, columns}
                    : kernels::Rows{format, expert.part[matrix], nullptr, count, columns};
    };
    gate = rows(0, inner, width);
    down = rows(1, width, inner);
    up = rows(2, inner, width);
  }
};

kernels::Rows slice(const kernels::Rows& w, std::size_t first, std::size_t count) {
  kernels::Rows part = w;
  part.data += first * kernels::bytes_per_row(w.format, w.columns);
  if (w.scales != nullptr) part.scales += first * (w.columns / 32);
  part.rows = count;
  return part;
}

bool scales_are_numbers(const kernels::Rows& w) {
  if (w.scales == nullptr) return true;
  const std::size_t count = w.rows * (w.columns / 32);
  return kernels::find_bad_scale(w.scales, count) == count;
}

/// Runs one layer's routed experts.
class RoutedExperts {
 public:
  RoutedExperts(const MoeWeights& weights, const MoeConfig& config, const kernels::Glu& glu,
                Executor& executor, const MoeScratch& scratch, const Picks& picks,
                std::size_t width)
      : weights_(weights),
        config_(config),
        glu_(glu),
        executor_(executor),
        scratch_(scratch),
        picks_(picks),
        width_(width) {}

  /// Computes all wanted experts as they come, each one's contributions into its own place.
  Status run(const float* z) {
    for (std::size_t taken = 0; taken < picks_.wanted().size(); ++taken) {
      SLUICE_TRY(executor_.check_cancelled());
      SLUICE_ASSIGN(const weights::ReadyExpert expert, executor_.next_expert());
      SLUICE_TRY(compute(expert, z));
      executor_.experts().release(expert);
    }
    return {};
  }

 private:
  Status compute(const weights::ReadyExpert& expert, const float* z) {
    const std::string name = executor_.is_traced() ? fmt::format("expert {}", expert.id) : "";
    const TraceSpan traced = executor_.span("expert", name);
    const std::size_t inner = config_.width;
    const ExpertRows rows(expert, weights_.expert_format, width_, inner);
    const auto picks = picks_.of(expert.id);
    for (std::size_t i = 0; i < picks.size(); ++i) {
      std::copy_n(z + picks[i].row * width_, width_, scratch_.gathered + i * width_);
    }
    Input gathered(scratch_.gathered, width_, picks.size(), scratch_.expert_prepared);
    const float* prepared = gathered.prepared_for(weights_.expert_format);
    std::atomic<bool> good{true};
    const std::size_t step = rows_per_item(weights_.expert_format, width_);
    executor_.parallel((inner + step - 1) / step, [&](std::size_t item, int) {
      const std::size_t first = item * step;
      const std::size_t count = std::min(step, inner - first);
      if (!inner_rows(rows, prepared, picks.size(), first, count)) good = false;
    });
    Input activated(scratch_.gate, inner, picks.size(), scratch_.expert_prepared);
    prepared = activated.prepared_for(weights_.expert_format);
    float* const out = scratch_.contributions + picks_.first(expert.id) * width_;
    const std::size_t down_step = rows_per_item(weights_.expert_format, inner);
    executor_.parallel((width_ + down_step - 1) / down_step, [&](std::size_t item, int) {
      const std::size_t first = item * down_step;
      const auto part = slice(rows.down, first, std::min(down_step, width_ - first));
      if (!scales_are_numbers(part)) good = false;
      kernels::matmul(part, prepared, picks.size(), out + first, width_);
    });
    if (!good || !kernels::all_finite(out, picks.size() * width_))
      return bad_number(expert.id, good);
    return {};
  }

  /// Rows [first, first + count) of gate and up, and their glu, for all picks.
  bool inner_rows(const ExpertRows& rows, const float* prepared, std::size_t picks,
                  std::size_t first, std::size_t count) const {
    const std::size_t inner = config_.width;
    const auto gate = slice(rows.gate, first, count);
    const auto up = slice(rows.up, first, count);
    kernels::matmul(gate, prepared, picks, scratch_.gate + first, inner);
    kernels::matmul(up, prepared, picks, scratch_.up + first, inner);
    for (std::size_t i = 0; i < picks; ++i) {
      float* const at = scratch_.gate + i * inner + first;
      kernels::glu(glu_, at, scratch_.up + i * inner + first, count, at);
    }
    return scales_are_numbers(gate) && scales_are_numbers(up);
  }

  Status bad_number(std::int32_t expert, bool scales_good) const {
    return fail(ErrorKind::number,
                "layer {}, expert {}: {}; the weights are damaged, or not what config.json says: "
                "check the file, or download its shard again",
                weights_.layer, expert,
                scales_good ? "its output is not finite"
                            : "a scale byte is 255, which stands for no number in MXFP4");
  }

  const MoeWeights& weights_;
  const MoeConfig& config_;
  const kernels::Glu& glu_;
  Executor& executor_;
  const MoeScratch& scratch_;
  const Picks& picks_;
  const std::size_t width_;
};

/// Sums the contributions of each row in the order of expert ids, whatever order they came in.
void sum_contributions(const Picks& picks, const MoeConfig& config, const MoeScratch& scratch,
                       std::size_t width, std::size_t positions, float* y) {
  std::fill_n(y, positions * width, 0.0f);
  const auto all = picks.all();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const float weight = scratch.weights[all[i].row * config.router.top_k + all[i].slot];
    kernels::add_scaled(weight, scratch.contributions + i * width, width, y + all[i].row * width);
  }
}

}  // namespace

MoeWeights find_moe(BlueprintBuilder& builder, const std::string& prefix, const MoeConfig& config,
                    std::size_t hidden, std::size_t layer) {
  const std::size_t width = expert_input_width(config, hidden);
  MoeWeights w;
  w.layer = layer;
  // In the order in which run_moe() uses them.
  w.router = builder.matrix(prefix + "gate.weight", config.router.experts, hidden);
  w.bias = builder.vector(prefix + "gate.e_score_correction_bias", config.router.experts);
  if (config.latent > 0) {
    w.latent_down =
        builder.matrix(prefix + "routed_expert_down_proj.weight", config.latent, hidden);
  }
  if (config.shared_width > 0) {
    w.shared = find_mlp(builder, prefix + "shared_experts.", config.shared_width, hidden);
  }
  if (config.latent > 0) {
    if (config.latent_norm) {
      w.latent_norm = builder.vector(prefix + "routed_expert_norm.weight", config.latent);
    }
    w.latent_up = builder.matrix(prefix + "routed_expert_up_proj.weight", hidden, config.latent);
  }
  const std::array<BlueprintBuilder::ExpertMatrix, 3> matrices = {{
      {"w1", config.width, width},
      {"w2", width, config.width},
      {"w3", config.width, width},
  }};
  w.expert_format = builder.experts(prefix + "experts.", config.router.experts, matrices);
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
  if (!kernels::all_finite(scratch.logits, positions * config.router.experts)) {
    return fail(ErrorKind::number, "layer {}: the router's scores are not finite", weights.layer);
  }
  for (std::size_t row = 0; row < positions; ++row) {
    kernels::route(config.router, scratch.logits + row * config.router.experts,
                   vectors[weights.bias], scratch.ids + row * config.router.top_k,
                   scratch.weights + row * config.router.top_k);
  }
  const Picks picks(scratch.ids, positions, config.router);
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

  RoutedExperts routed(weights, config, glu, executor, scratch, picks, width);
  SLUICE_TRY(routed.run(z));
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
  if (!kernels::all_finite(scratch.logits, config.router.experts)) return;
  kernels::route(config.router, scratch.logits, vectors[weights.bias], scratch.ids,
                 scratch.weights);
  executor.experts().guess(weights.layer, {scratch.ids, std::min(most, config.router.top_k)});
}

}  // namespace sluice::model
