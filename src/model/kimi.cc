#include "model/kimi.h"

#include <algorithm>
#include <array>

#include "kernels/ops.h"
#include "model/decoder.h"
#include "model/kimi_layers.h"

namespace sluice::model {
namespace {

class KimiNetwork final : public Decoder {
 public:
  KimiNetwork(const KimiConfig& config, const KimiWeights& weights, const DecoderParts& parts,
              const PassLimits& limits, const Resources& resources, VectorTable vectors)
      : Decoder(parts, limits, resources, std::move(vectors)), config_(config), weights_(weights) {
    if (config_.residual_block == 0) return;
    for (const KimiLayer& layer : weights_.layers) {
      vectors_.multiply(layer.attention_mix.norm, layer.attention_mix.projection);
      vectors_.multiply(layer.ffn_mix.norm, layer.ffn_mix.projection);
    }
    vectors_.multiply(weights_.output_mix.norm, weights_.output_mix.projection);
  }

 private:
  DecoderScratch lay_out(Arena& arena) override {
    scratch_ = lay_out_kimi(arena, config_, parts_.shape, limits_, threads());
    return scratch_.decoder;
  }
  Status run_layer(std::size_t index, PassObserver* observer) override;
  const float* before_final_norm(std::size_t row, float* room) override;
  void keep_rows(std::size_t first, std::size_t count) override;

  Status attention(const KimiLayer& layer, std::size_t index, Input& x);
  Status feed_forward(const KimiLayer& layer, PassObserver* observer, Input& x);
  const float* mix(const ResidualMix& mix, std::size_t banks);
  void mix_row(const ResidualMix& mix, std::size_t banks, std::size_t row, float* out);

  const KimiConfig& config_;
  const KimiWeights& weights_;
  KimiScratch scratch_{};
};

void KimiNetwork::mix_row(const ResidualMix& mix, std::size_t banks, std::size_t row, float* out) {
  std::array<const float*, kMostResidualBanks + 1> sources{};
  const std::size_t at = row * config_.hidden;
  for (std::size_t i = 0; i < banks; ++i) sources[i] = scratch_.banks[i] + at;
  sources[banks] = scratch().sum + at;
  kernels::attention_residual(std::span(sources).first(banks + 1), vectors_[mix.norm],
                              config_.hidden, parts_.epsilon, out);
}

/// The mix of the first `banks` banks and the running sum, for all rows.
const float* KimiNetwork::mix(const ResidualMix& mix, std::size_t banks) {
  executor_.parallel(positions(), [&](std::size_t row, int) {
    mix_row(mix, banks, row, scratch_.mixed + row * config_.hidden);
  });
  return scratch_.mixed;
}

Status KimiNetwork::run_layer(std::size_t index, PassObserver* observer) {
  const KimiLayer& layer = weights_.layers[index];
  const std::size_t block = config_.residual_block;
  const bool starts_block = block > 0 && index % block == 0;
  const std::size_t banks_before = block > 0 ? (index + block - 1) / block : 0;
  const std::size_t banks_after = block > 0 ? index / block + 1 : 0;
  float* const sum = scratch().sum;

  if (layer.is_moe && guesses()) {
    const float* const state = banks_before > 0 ? mix(layer.ffn_mix, banks_before) : scratch().sum;
    guess(layer.moe, config_.moe, scratch_.moe, state, layer.post_attention_norm);
  }
  const float* in = banks_before > 0 ? mix(layer.attention_mix, banks_before) : sum;
  Input x = normed(in, layer.input_norm);
  // The RAW running sum is banked, not the mix; then the sum restarts from the attention output.
  if (starts_block) std::copy_n(sum, floats(), scratch_.banks[banks_after - 1]);
  SLUICE_TRY(attention(layer, index, x));
  if (starts_block) {
    std::copy_n(scratch().part_out, floats(), sum);
  } else {
    add_part();
  }

  in = banks_after > 0 ? mix(layer.ffn_mix, banks_after) : sum;
  Input y = normed(in, layer.post_attention_norm);
  SLUICE_TRY(feed_forward(layer, observer, y));
  add_part();
  return {};
}

Status KimiNetwork::attention(const KimiLayer& layer, std::size_t index, Input& x) {
  const TraceSpan traced = executor_.span("attention", layer.is_kda ? "KDA" : "MLA");
  const auto state = [&](std::size_t segment) { return state_of(segment, index); };
  if (layer.is_kda) {
    const KdaScratch* const notes = is_tried() ? &scratch_.kda_notes[index] : nullptr;
    return run_kda(layer.kda, config_.kda, config_.epsilon, vectors_, executor_, scratch_.kda,
                   segments(), notes, state, x, scratch().part_out);
  }
  const auto cache = [&](std::size_t segment) { return caches_of(segment, index); };
  return run_mla(layer.mla, config_.mla, vectors_, executor_, scratch_.mla, {segments(), cache}, x,
                 scratch().part_out);
}

Status KimiNetwork::feed_forward(const KimiLayer& layer, PassObserver* observer, Input& x) {
  if (layer.is_moe) {
    return run_mixture(layer.moe, config_.moe, config_.glu, scratch_.moe, observer, x);
  }
  const TraceSpan traced = executor_.span("feed forward", "MLP");
  return run_mlp(layer.mlp, config_.glu, executor_, scratch_.mlp, x, scratch().part_out);
}

const float* KimiNetwork::before_final_norm(std::size_t row, float* room) {
  if (config_.residual_block == 0) return Decoder::before_final_norm(row, room);
  mix_row(weights_.output_mix, config_.residual_banks(), row, room);
  return room;
}

void KimiNetwork::keep_rows(std::size_t first, std::size_t count) {
  for (std::size_t index = 0; index < config_.layers; ++index) {
    if (!config_.is_kda[index]) continue;
    keep_kda_rows(weights_.layers[index].kda, config_.kda, config_.epsilon, vectors_, executor_,
                  scratch_.kda_notes[index], first, count, state_of(0, index));
  }
}

struct KimiFamily {
  using Config = KimiConfig;
  using Weights = KimiWeights;
  using Network = KimiNetwork;
  static constexpr auto kFind = find_kimi;
  static constexpr auto kLayOut = lay_out_kimi;

  static Shape shape_of(const KimiConfig& config) {
    Shape shape = shape_of_mixture(config);
    for (std::size_t layer = 0; layer < config.layers; ++layer) {
      shape.layer_kinds.push_back(fmt::format("{}, {}", config.is_kda[layer] ? "KDA" : "MLA",
                                              config.is_moe(layer) ? "MoE" : "dense"));
    }
    return shape;
  }

  /// KDA's recurrent state or MLA's cache.
  static std::vector<LayerState> states_of(const KimiConfig& config) {
    std::vector<LayerState> states;
    for (const bool is_kda : config.is_kda) {
      states.push_back(is_kda ? LayerState{.fixed = kda_state_floats(config.kda)}
                              : LayerState{.caches = 1, .width = config.mla.cache_width()});
    }
    return states;
  }
};
using KimiArchitecture = DecoderArchitecture<KimiFamily>;

/// What SPEC 2 gives as F32; all else is BF16.
constexpr std::array<ReleaseHabits::Suffix, 5> kSuffixes = {
    {{"_conv1d.weight", DType::f32},
     {".A_log", DType::f32},
     {".dt_bias", DType::f32},
     {".o_norm.weight", DType::f32},
     {".e_score_correction_bias", DType::f32}}};

ReleaseHabits habits_of(const KimiConfig& config) {
  ReleaseHabits habits;
  habits.suffixes = kSuffixes;
  // A_log has a value per head, but K3 stores as many as a head is wide.
  if (config.model_type == "kimi_k3") habits.padding = config.kda.dim;
  if (config.packed_experts) habits.packed_experts = DType::u8;
  return habits;
}

}  // namespace

Result<std::unique_ptr<Architecture>> open_kimi(const std::string& config,
                                                const store::Checkpoint& checkpoint,
                                                std::span<const io::FileId> files) {
  SLUICE_ASSIGN(KimiConfig parsed, parse_kimi_config(config));
  return KimiArchitecture::open(std::move(parsed), checkpoint, files);
}

Result<std::unique_ptr<Architecture>> imagine_kimi(const std::string& config,
                                                   const std::filesystem::path& place) {
  SLUICE_ASSIGN(KimiConfig parsed, parse_kimi_config(config));
  const ReleaseHabits habits = habits_of(parsed);
  return KimiArchitecture::imagine(std::move(parsed), place, habits);
}

}  // namespace sluice::model
