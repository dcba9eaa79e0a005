#include "model/moe.h"

#include <algorithm>
#include <atomic>
#include <utility>
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

  ExpertRows(const weights::ReadyExpert& expert, const ExpertLayout& layout, std::size_t width,
             std::size_t inner) {
    const auto rows = [&](const ExpertMatrix& matrix, std::size_t count, std::size_t columns) {
      return kernels::Rows{matrix.format, expert.part[matrix.data],
                           matrix.scales ? expert.part[*matrix.scales] : nullptr, count, columns};
    };
    gate = rows(layout.gate, layout.by_turns ? 2 * inner : inner, width);
    down = rows(layout.down, width, inner);
    if (!layout.by_turns) up = rows(layout.up, inner, width);
  }
};

bool scales_are_numbers(const kernels::Rows& w) {
  if (w.format != kernels::WeightFormat::mxfp4) return true;
  const std::size_t count = w.rows * (w.columns / 32);
  return kernels::find_bad_scale(w.scales, count) == count;
}

void add_bias(const float* bias, std::size_t count, std::size_t rows, std::size_t stride,
              float* y) {
  if (bias == nullptr) return;
  for (std::size_t row = 0; row < rows; ++row) kernels::add(bias, count, y + row * stride);
}

/// Runs one layer's routed experts.
class RoutedExperts {
 public:
  RoutedExperts(const MoeWeights& weights, const MoeConfig& config, const kernels::Glu& glu,
                Executor& executor, const MoeScratch& scratch, const Picks& picks,
                std::size_t width)
      : weights_(weights),
        layout_(weights.experts),
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
    const ExpertRows rows(expert, layout_, width_, inner);
    const Biases biases = decode_biases(expert);
    const auto picks = picks_.of(expert.id);
    for (std::size_t i = 0; i < picks.size(); ++i) {
      std::copy_n(z + picks[i].row * width_, width_, scratch_.gathered + i * width_);
    }
    Input gathered(scratch_.gathered, width_, picks.size(), scratch_.expert_prepared);
    bool good = compute_inner(rows, biases, gathered);
    Input activated(scratch_.gate, inner, picks.size(), scratch_.expert_prepared);
    float* const out = scratch_.contributions + picks_.first(expert.id) * width_;
    good = compute_down(rows.down, biases.down, activated, out) && good;
    if (!good || !kernels::all_finite(out, picks.size() * width_))
      return bad_number(expert.id, good);
    return {};
  }

  /// Null without biases.
  struct Biases {
    const float* gate = nullptr;  // by turns: of both
    const float* up = nullptr;
    const float* down = nullptr;
  };

  Biases decode_biases(const weights::ReadyExpert& expert) const {
    float* room = scratch_.biases;
    const auto decode = [&](const ExpertMatrix& matrix, std::size_t count) {
      if (!matrix.bias) return static_cast<const float*>(nullptr);
      float* const out = std::exchange(room, room + count);
      kernels::decode_row({matrix.bias_format, expert.part[*matrix.bias], nullptr, 1, count}, 0,
                          out);
      return static_cast<const float*>(out);
    };
    const std::size_t inner = config_.width;
    Biases biases;
    biases.gate = decode(layout_.gate, layout_.by_turns ? 2 * inner : inner);
    if (!layout_.by_turns) biases.up = decode(layout_.up, inner);
    biases.down = decode(layout_.down, width_);
    return biases;
  }

  /// scratch.gate = glu(gate x, up x) for all picks. False when a scale is no number.
  bool compute_inner(const ExpertRows& rows, const Biases& biases, Input& x) {
    const std::size_t inner = config_.width;
    const std::size_t step = rows_per_item(layout_.gate.format, width_);
    const std::size_t items = (inner + step - 1) / step;
    std::atomic<bool> good{true};
    const auto count_of = [&](std::size_t item) { return std::min(step, inner - item * step); };
    const auto multiply = [&](const kernels::Rows& w, const float* bias, const float* prepared,
                              std::size_t item, float* out) {
      const std::size_t first = item * step;
      const auto part = kernels::slice(w, first, count_of(item));
      if (!scales_are_numbers(part)) good = false;
      kernels::matmul(part, prepared, x.positions(), out + first, inner);
      add_bias(bias == nullptr ? nullptr : bias + first, part.rows, x.positions(), inner,
               out + first);
    };
    const float* prepared = x.prepared_for(layout_.gate.format);
    const bool apart =
        !layout_.by_turns && !kernels::same_order(layout_.gate.format, layout_.up.format);
    if (apart) {
      executor_.parallel(items, [&](std::size_t item, int) {
        multiply(rows.gate, biases.gate, prepared, item, scratch_.gate);
      });
      prepared = x.prepared_for(layout_.up.format);
    }
    executor_.parallel(items, [&](std::size_t item, int) {
      if (layout_.by_turns) {
        if (!pairs(rows.gate, biases.gate, prepared, x.positions(), item * step, count_of(item)))
          good = false;
      } else {
        if (!apart) multiply(rows.gate, biases.gate, prepared, item, scratch_.gate);
        multiply(rows.up, biases.up, prepared, item, scratch_.up);
      }
      for (std::size_t i = 0; i < x.positions(); ++i) {
        float* const at = scratch_.gate + i * inner + item * step;
        kernels::glu(glu_, at, scratch_.up + i * inner + item * step, count_of(item), at);
      }
    });
    return good;
  }

  /// Gate and up of rows that lie by turns, from row `first` of each on.
  bool pairs(const kernels::Rows& w, const float* bias, const float* prepared, std::size_t picks,
             std::size_t first, std::size_t count) const {
    const std::size_t inner = config_.width;
    const auto part = kernels::slice(w, 2 * first, 2 * count);
    float* const both = scratch_.pairs + 2 * first;
    kernels::matmul(part, prepared, picks, both, 2 * inner);
    add_bias(bias == nullptr ? nullptr : bias + 2 * first, 2 * count, picks, 2 * inner, both);
    for (std::size_t i = 0; i < picks; ++i) {
      for (std::size_t row = 0; row < count; ++row) {
        scratch_.gate[i * inner + first + row] = both[i * 2 * inner + 2 * row];
        scratch_.up[i * inner + first + row] = both[i * 2 * inner + 2 * row + 1];
      }
    }
    return scales_are_numbers(part);
  }

  /// out [picks, W]. False when a scale is no number.
  bool compute_down(const kernels::Rows& down, const float* bias, Input& x, float* out) {
    const float* const prepared = x.prepared_for(down.format);
    const std::size_t step = rows_per_item(down.format, config_.width);
    std::atomic<bool> good{true};
    executor_.parallel((width_ + step - 1) / step, [&](std::size_t item, int) {
      const std::size_t first = item * step;
      const auto part = kernels::slice(down, first, std::min(step, width_ - first));
      if (!scales_are_numbers(part)) good = false;
      kernels::matmul(part, prepared, x.positions(), out + first, width_);
      add_bias(bias == nullptr ? nullptr : bias + first, part.rows, x.positions(), width_,
               out + first);
    });
    return good;
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
  const ExpertLayout& layout_;
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
  if (!kernels::all_finite(scratch.logits, positions * config.router.experts)) {
    return fail(ErrorKind::number, "layer {}: the router's scores are not finite", weights.layer);
  }
  for (std::size_t row = 0; row < positions; ++row) {
    route_row(weights, config, vectors, scratch, row);
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
  route_row(weights, config, vectors, scratch, 0);
  executor.experts().guess(weights.layer, {scratch.ids, std::min(most, config.router.top_k)});
}

}  // namespace sluice::model
