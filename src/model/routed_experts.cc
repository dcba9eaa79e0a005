#include "model/routed_experts.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "kernels/ops.h"

namespace sluice::model {
namespace {

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
    compute_inner(rows, biases, gathered);
    Input activated(scratch_.gate, inner, picks.size(), scratch_.expert_prepared);
    float* const out = scratch_.contributions + picks_.first(expert.id) * width_;
    compute_down(rows.down, biases.down, activated, out);
    return scales_good_ && finite_ ? Status{} : bad_number(expert.id);
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

  /// scratch.gate = glu(gate x, up x) for all picks.
  void compute_inner(const ExpertRows& rows, const Biases& biases, Input& x) {
    const std::size_t inner = config_.width;
    const std::size_t step = rows_per_item(layout_.gate.format, width_);
    const std::size_t items = (inner + step - 1) / step;
    const auto count_of = [&](std::size_t item) { return std::min(step, inner - item * step); };
    const auto multiply = [&](const kernels::Rows& w, const float* bias, const float* prepared,
                              std::size_t item, float* out) {
      const std::size_t first = item * step;
      const auto part = kernels::slice(w, first, count_of(item));
      multiply_rows(part, bias == nullptr ? nullptr : bias + first, prepared, x.positions(), inner,
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
        pairs(rows.gate, biases.gate, prepared, x.positions(), item * step, count_of(item));
      } else {
        if (!apart) multiply(rows.gate, biases.gate, prepared, item, scratch_.gate);
        multiply(rows.up, biases.up, prepared, item, scratch_.up);
      }
      for (std::size_t i = 0; i < x.positions(); ++i) {
        float* const at = scratch_.gate + i * inner + item * step;
        kernels::glu(glu_, at, scratch_.up + i * inner + item * step, count_of(item), at);
      }
    });
  }

  /// out[i * stride + r] = W x + bias, which must be numbers before an activation swallows them.
  void multiply_rows(const kernels::Rows& w, const float* bias, const float* prepared,
                     std::size_t picks, std::size_t stride, float* out) {
    if (!scales_are_numbers(w)) scales_good_ = false;
    kernels::matmul(w, prepared, picks, out, stride);
    add_bias(bias, w.rows, picks, stride, out);
    for (std::size_t i = 0; i < picks; ++i) {
      if (!kernels::all_finite(out + i * stride, w.rows)) finite_ = false;
    }
  }

  /// Gate and up of rows that lie by turns, from row `first` of each on.
  void pairs(const kernels::Rows& w, const float* bias, const float* prepared, std::size_t picks,
             std::size_t first, std::size_t count) {
    const std::size_t inner = config_.width;
    float* const both = scratch_.pairs + 2 * first;
    multiply_rows(kernels::slice(w, 2 * first, 2 * count),
                  bias == nullptr ? nullptr : bias + 2 * first, prepared, picks, 2 * inner, both);
    for (std::size_t i = 0; i < picks; ++i) {
      for (std::size_t row = 0; row < count; ++row) {
        scratch_.gate[i * inner + first + row] = both[i * 2 * inner + 2 * row];
        scratch_.up[i * inner + first + row] = both[i * 2 * inner + 2 * row + 1];
      }
    }
  }

  /// out [picks, W].
  void compute_down(const kernels::Rows& down, const float* bias, Input& x, float* out) {
    const float* const prepared = x.prepared_for(down.format);
    const std::size_t step = rows_per_item(down.format, config_.width);
    executor_.parallel((width_ + step - 1) / step, [&](std::size_t item, int) {
      const std::size_t first = item * step;
      multiply_rows(kernels::slice(down, first, std::min(step, width_ - first)),
                    bias == nullptr ? nullptr : bias + first, prepared, x.positions(), width_,
                    out + first);
    });
  }

  Status bad_number(std::int32_t expert) const {
    return fail(ErrorKind::number,
                "layer {}, expert {}: {}; the weights are damaged, or not what the configuration "
                "says: "
                "check the file, or download its shard again",
                weights_.layer, expert,
                scales_good_ ? "what it makes of its input is not finite"
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
  std::atomic<bool> scales_good_{true};
  std::atomic<bool> finite_{true};
};

}  // namespace

Status run_routed_experts(const MoeWeights& weights, const MoeConfig& config,
                          const kernels::Glu& glu, Executor& executor, const MoeScratch& scratch,
                          const Picks& picks, std::size_t width, const float* z) {
  return RoutedExperts(weights, config, glu, executor, scratch, picks, width).run(z);
}

void sum_contributions(const Picks& picks, const MoeConfig& config, const MoeScratch& scratch,
                       std::size_t width, std::size_t positions, float* y) {
  std::fill_n(y, positions * width, 0.0f);
  const auto all = picks.all();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const float weight = scratch.weights[all[i].row * config.router.top_k + all[i].slot];
    kernels::add_scaled(weight, scratch.contributions + i * width, width, y + all[i].row * width);
  }
}

}  // namespace sluice::model
