#include "model/kimi.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/buffer.h"
#include "base/check.h"
#include "base/clock.h"
#include "kernels/ops.h"
#include "model/kimi_layers.h"
#include "model/lookahead.h"

namespace sluice::model {
namespace {

/// State of one sequence: layer after layer, KDA's recurrent state or MLA's cache.
class KimiState final : public SequenceState {
 public:
  static std::uint64_t bytes(const KimiConfig& config, std::size_t context) {
    std::uint64_t floats = 0;
    for (const bool is_kda : config.is_kda) floats += layer_floats(config, is_kda, context);
    return floats * sizeof(float);
  }

  static Result<std::unique_ptr<SequenceState>> make(const KimiConfig& config, std::size_t context,
                                                     MemoryLedger& ledger) {
    std::unique_ptr<KimiState> state(new KimiState(config, context));
    SLUICE_ASSIGN(state->room_, Buffer::allocate(bytes(config, context), Tenant::state, ledger));
    return state;
  }

  void reset() override {
    length_ = 0;  // what the caches hold past it is never read
    for (std::size_t layer = 0; layer < offset_.size(); ++layer) {
      if (config_.is_kda[layer]) {
        std::fill_n(of_layer(layer), kda_state_floats(config_.kda), 0.0f);
      }
    }
  }

  void for_each_piece(std::size_t length,
                      FunctionRef<void(std::span<std::byte>)> visit) const override {
    for (std::size_t layer = 0; layer < offset_.size(); ++layer) {
      const std::uint64_t floats = layer_floats(config_, config_.is_kda[layer], length);
      visit(std::as_writable_bytes(room_.floats().subspan(offset_[layer], floats)));
    }
  }

  float* of_layer(std::size_t layer) { return room_.floats().data() + offset_[layer]; }
  void advance(std::size_t positions) { length_ += positions; }

 private:
  KimiState(const KimiConfig& config, std::size_t context)
      : SequenceState(context), config_(config) {
    std::uint64_t offset = 0;
    for (const bool is_kda : config.is_kda) {
      offset_.push_back(offset);
      offset += layer_floats(config, is_kda, context);
    }
  }

  static std::uint64_t layer_floats(const KimiConfig& config, bool is_kda, std::size_t context) {
    return is_kda ? kda_state_floats(config.kda) : context * config.mla.cache_width();
  }

  const KimiConfig& config_;
  Buffer room_;
  std::vector<std::uint64_t> offset_;
};

/// One pass on its way through the layers.
class KimiNetwork final : public Network {
 public:
  KimiNetwork(const KimiConfig& config, const KimiWeights& weights, const PassLimits& limits,
              const Resources& resources, VectorTable vectors)
      : config_(config),
        weights_(weights),
        limits_(limits),
        resources_(resources),
        executor_(resources.threads, resources.trunk, resources.experts, resources.trace),
        vectors_(std::move(vectors)),
        lookahead_(resources.lookahead) {}

  Status initialize() {
    SLUICE_ASSIGN(embedding_room_, Buffer::allocate(embedding_room(weights_.embedding),
                                                    Tenant::activations, resources_.ledger));
    Arena measure(nullptr);
    lay_out_kimi(measure, config_, limits_, resources_.threads.threads());
    SLUICE_ASSIGN(room_, Buffer::allocate(measure.most() * sizeof(float), Tenant::activations,
                                          resources_.ledger));
    Arena arena(room_.floats().data());
    scratch_ = lay_out_kimi(arena, config_, limits_, resources_.threads.threads());
    if (config_.residual_block == 0) return {};
    for (const KimiLayer& layer : weights_.layers) {
      vectors_.multiply(layer.attention_mix.norm, layer.attention_mix.projection);
      vectors_.multiply(layer.ffn_mix.norm, layer.ffn_mix.projection);
    }
    vectors_.multiply(weights_.output_mix.norm, weights_.output_mix.projection);
    return {};
  }

  Result<std::unique_ptr<SequenceState>> new_state(std::size_t context) override {
    if (context > limits_.context) {
      return fail(ErrorKind::usage, "a context of {} positions was asked for, the limit is {}",
                  context, limits_.context);
    }
    return KimiState::make(config_, context, resources_.ledger);
  }

  Result<std::span<const float>> run(const Pass& pass) override {
    SLUICE_TRY(admit(pass));
    executor_.watch(pass.cancellation);
    auto logits = run_admitted(pass);
    if (!logits) {
      resources_.trunk.abort();
      resources_.experts.abort();
    }
    return logits;
  }

  double io_wait_s() const override {
    return embedding_wait_s_ + resources_.trunk.wait_s() + resources_.experts.wait_s();
  }

 private:
  Status admit(const Pass& pass);
  Result<std::span<const float>> run_admitted(const Pass& pass);
  Status embed(const Pass& pass);
  Status run_layer(std::size_t index, const Pass& pass);
  void look_ahead(const KimiLayer& layer, std::size_t banks);
  Status attention(const KimiLayer& layer, std::size_t index, Input& x);
  Status feed_forward(const KimiLayer& layer, std::size_t index, const Pass& pass, Input& x);
  Result<std::span<const float>> head();

  const float* mix(const ResidualMix& mix, std::size_t banks);
  void mix_row(const ResidualMix& mix, std::size_t banks, std::size_t row, float* out);
  Input normed(const float* x, const Vector& weight);
  float* bank(std::size_t index) { return scratch_.banks[index]; }
  KimiState& state(std::size_t segment) { return *states_[segment]; }
  std::size_t floats() const { return positions_ * config_.hidden; }

  const KimiConfig& config_;
  const KimiWeights& weights_;
  const PassLimits limits_;
  Resources resources_;
  Executor executor_;
  VectorTable vectors_;
  Buffer embedding_room_;
  Buffer room_;
  KimiScratch scratch_{};
  double embedding_wait_s_ = 0;
  Lookahead lookahead_;

  // Of the pass under way.
  std::vector<RowRange> segments_;
  std::vector<KimiState*> states_;
  std::vector<std::size_t> logit_rows_;
  std::size_t positions_ = 0;
};

/// Checks the pass against the limits, and lists its rows.
Status KimiNetwork::admit(const Pass& pass) {
  segments_.clear();
  states_.clear();
  logit_rows_.clear();
  positions_ = 0;
  for (const Segment& segment : pass.segments) {
    auto* const state = dynamic_cast<KimiState*>(segment.state);
    SLUICE_CHECK(state != nullptr && !segment.tokens.empty());
    if (state->length() + segment.tokens.size() > state->context()) {
      return fail(ErrorKind::memory,
                  "the sequence has {} positions and {} more do not fit into its context of {}; "
                  "raise --ctx",
                  state->length(), segment.tokens.size(), state->context());
    }
    for (const std::int32_t token : segment.tokens) {
      if (token >= 0 && static_cast<std::size_t>(token) < config_.vocabulary) continue;
      return fail(ErrorKind::usage, "token id {} is outside the vocabulary of {}", token,
                  config_.vocabulary);
    }
    segments_.push_back({positions_, segment.tokens.size(), state->length()});
    states_.push_back(state);
    for (std::size_t i = 0; i < segment.tokens.size(); ++i) {
      const bool last = i + 1 == segment.tokens.size();
      if (segment.logits == Logits::all || (segment.logits == Logits::last && last)) {
        logit_rows_.push_back(positions_ + i);
      }
    }
    positions_ += segment.tokens.size();
  }
  SLUICE_CHECK(positions_ > 0 && positions_ <= limits_.positions);
  SLUICE_CHECK(logit_rows_.size() <= limits_.logit_rows);
  return {};
}

Result<std::span<const float>> KimiNetwork::run_admitted(const Pass& pass) {
  resources_.trunk.begin_pass(!logit_rows_.empty());
  SLUICE_TRY(embed(pass));
  for (std::size_t layer = 0; layer < config_.layers; ++layer) {
    if (pass.observer != nullptr) pass.observer->on_layer_begin(layer);
    SLUICE_TRY(run_layer(layer, pass));
    if (pass.observer != nullptr) pass.observer->on_hidden(layer, {scratch_.sum, floats()});
  }
  lookahead_.learn(resources_.experts.statistics());
  SLUICE_ASSIGN(const std::span<const float> logits, head());
  for (std::size_t segment = 0; segment < states_.size(); ++segment) {
    states_[segment]->advance(segments_[segment].count);
  }
  return logits;
}

Status KimiNetwork::embed(const Pass& pass) {
  executor_.enter_layer(Trace::kNoLayer);
  const TraceSpan traced = executor_.span("embedding", "embedding");
  const auto start = Clock::now();
  for (std::size_t i = 0; i < pass.segments.size(); ++i) {
    SLUICE_TRY(read_embedding(weights_.embedding, pass.segments[i].tokens, resources_.reader,
                              embedding_room_.bytes(),
                              scratch_.sum + segments_[i].first * config_.hidden));
  }
  embedding_wait_s_ += seconds_since(start);
  return {};
}

void KimiNetwork::mix_row(const ResidualMix& mix, std::size_t banks, std::size_t row, float* out) {
  std::array<const float*, kMostResidualBanks + 1> sources{};
  const std::size_t at = row * config_.hidden;
  for (std::size_t i = 0; i < banks; ++i) sources[i] = scratch_.banks[i] + at;
  sources[banks] = scratch_.sum + at;
  kernels::attention_residual(std::span(sources).first(banks + 1), vectors_[mix.norm],
                              config_.hidden, config_.epsilon, out);
}

/// The mix of the first `banks` banks and the running sum, for all rows.
const float* KimiNetwork::mix(const ResidualMix& mix, std::size_t banks) {
  executor_.parallel(positions_, [&](std::size_t row, int) {
    mix_row(mix, banks, row, scratch_.mixed + row * config_.hidden);
  });
  return scratch_.mixed;
}

Input KimiNetwork::normed(const float* x, const Vector& weight) {
  executor_.parallel(positions_, [&](std::size_t row, int) {
    const std::size_t at = row * config_.hidden;
    kernels::rms_norm(x + at, vectors_[weight], config_.hidden, config_.epsilon,
                      scratch_.normed + at);
  });
  return {scratch_.normed, config_.hidden, positions_, scratch_.prepared};
}

Status KimiNetwork::run_layer(std::size_t index, const Pass& pass) {
  const KimiLayer& layer = weights_.layers[index];
  executor_.enter_layer(index);
  const std::size_t block = config_.residual_block;
  const bool starts_block = block > 0 && index % block == 0;
  const std::size_t banks_before = block > 0 ? (index + block - 1) / block : 0;
  const std::size_t banks_after = block > 0 ? index / block + 1 : 0;

  look_ahead(layer, banks_before);
  const float* in = banks_before > 0 ? mix(layer.attention_mix, banks_before) : scratch_.sum;
  Input x = normed(in, layer.input_norm);
  // The RAW running sum is banked, not the mix; then the sum restarts from the attention output.
  if (starts_block) std::copy_n(scratch_.sum, floats(), bank(banks_after - 1));
  SLUICE_TRY(attention(layer, index, x));
  if (starts_block) {
    std::copy_n(scratch_.part_out, floats(), scratch_.sum);
  } else {
    kernels::add(scratch_.part_out, floats(), scratch_.sum);
  }

  in = banks_after > 0 ? mix(layer.ffn_mix, banks_after) : scratch_.sum;
  Input y = normed(in, layer.post_attention_norm);
  SLUICE_TRY(feed_forward(layer, index, pass, y));
  kernels::add(scratch_.part_out, floats(), scratch_.sum);
  if (!kernels::all_finite(scratch_.sum, floats())) {
    return fail(ErrorKind::number,
                "layer {}: the hidden state is not finite after it; the weights are damaged, or "
                "not what config.json says",
                index);
  }
  return {};
}

/// The layer's router on the state before its attention: right often enough where attention moves
/// the state little, and early enough to read while it is computed.
void KimiNetwork::look_ahead(const KimiLayer& layer, std::size_t banks) {
  if (!layer.is_moe || positions_ > 1 || lookahead_.guesses() == 0) return;
  const float* state = banks > 0 ? mix(layer.ffn_mix, banks) : scratch_.sum;
  Input x = normed(state, layer.post_attention_norm);
  guess_experts(layer.moe, config_.moe, vectors_, executor_, scratch_.moe, x, lookahead_.guesses());
}

Status KimiNetwork::attention(const KimiLayer& layer, std::size_t index, Input& x) {
  const TraceSpan traced = executor_.span("attention", layer.is_kda ? "KDA" : "MLA");
  const auto state_of = [&](std::size_t segment) { return state(segment).of_layer(index); };
  if (layer.is_kda) {
    return run_kda(layer.kda, config_.kda, config_.epsilon, vectors_, executor_, scratch_.kda,
                   segments_, state_of, x, scratch_.part_out);
  }
  return run_mla(layer.mla, config_.mla, vectors_, executor_, scratch_.mla, segments_, state_of, x,
                 scratch_.part_out);
}

Status KimiNetwork::feed_forward(const KimiLayer& layer, std::size_t index, const Pass& pass,
                                 Input& x) {
  const TraceSpan traced = executor_.span("feed forward", layer.is_moe ? "MoE" : "MLP");
  if (!layer.is_moe) {
    return run_mlp(layer.mlp, config_.glu, executor_, scratch_.mlp, x, scratch_.part_out);
  }
  SLUICE_TRY(run_moe(layer.moe, config_.moe, config_.glu, config_.epsilon, vectors_, executor_,
                     scratch_.moe, x, scratch_.part_out));
  if (pass.observer != nullptr) {
    pass.observer->on_routes(index, {scratch_.moe.ids, positions_ * config_.moe.router.top_k});
  }
  return {};
}

Result<std::span<const float>> KimiNetwork::head() {
  if (logit_rows_.empty()) return std::span<const float>{};
  executor_.enter_layer(Trace::kNoLayer);
  const TraceSpan traced = executor_.span("head", "head");
  const std::size_t hidden = config_.hidden;
  for (std::size_t i = 0; i < logit_rows_.size(); ++i) {
    float* const out = scratch_.head_in + i * hidden;
    const float* in = scratch_.sum + logit_rows_[i] * hidden;
    if (config_.residual_block > 0) {
      mix_row(weights_.output_mix, config_.residual_banks(), logit_rows_[i], out);
      in = out;
    }
    kernels::rms_norm(in, vectors_[weights_.final_norm], hidden, config_.epsilon, out);
  }
  Input x(scratch_.head_in, hidden, logit_rows_.size(), scratch_.head_prepared);
  SLUICE_TRY(executor_.multiply(weights_.head, x, scratch_.logits));
  const std::span<const float> logits(scratch_.logits, logit_rows_.size() * config_.vocabulary);
  if (!kernels::all_finite(logits.data(), logits.size())) {
    return fail(ErrorKind::number,
                "the logits are not finite although every layer's output is: the output head "
                "({}lm_head.weight) is damaged",
                config_.tensor_prefix);
  }
  return logits;
}

class KimiArchitecture final : public Architecture {
 public:
  explicit KimiArchitecture(KimiConfig config) : config_(std::move(config)) {
    shape_.architecture = config_.model_type;
    shape_.layers = config_.layers;
    shape_.hidden = config_.hidden;
    shape_.vocabulary = config_.vocabulary;
    shape_.experts = config_.moe.router.experts;
    shape_.top_k = config_.moe.router.top_k;
    shape_.max_positions = config_.max_positions;
    shape_.end_ids = config_.end_ids;
    for (std::size_t layer = 0; layer < config_.layers; ++layer) {
      shape_.layer_kinds.push_back(fmt::format("{}, {}", config_.is_kda[layer] ? "KDA" : "MLA",
                                               config_.is_moe(layer) ? "MoE" : "dense"));
    }
  }

  Status match(TensorSource& tensors) {
    BlueprintBuilder builder(tensors, config_.layers, config_.moe.router.top_k);
    weights_ = find_kimi(builder, config_);
    SLUICE_ASSIGN(blueprint_, builder.finish());
    return {};
  }

  const Shape& shape() const override { return shape_; }
  const Blueprint& blueprint() const override { return blueprint_; }

  std::uint64_t state_bytes(std::size_t context) const override {
    return Buffer::charge_for(KimiState::bytes(config_, context));
  }

  std::uint64_t activation_bytes(const PassLimits& limits, int threads) const override {
    Arena measure(nullptr);
    lay_out_kimi(measure, config_, limits, threads);
    return Buffer::charge_for(measure.most() * sizeof(float)) +
           Buffer::charge_for(embedding_room(weights_.embedding));
  }

  Result<std::unique_ptr<Network>> make_network(const Resources& resources,
                                                const PassLimits& limits,
                                                VectorTable vectors) const override {
    auto network =
        std::make_unique<KimiNetwork>(config_, weights_, limits, resources, std::move(vectors));
    SLUICE_TRY(network->initialize());
    return network;
  }

 private:
  KimiConfig config_;
  KimiWeights weights_;
  Blueprint blueprint_;
  Shape shape_;
};

/// What SPEC 2 gives as F32; all else is BF16.
constexpr std::array<std::string_view, 5> kFloat32Suffixes = {
    "_conv1d.weight", ".A_log", ".dt_bias", ".o_norm.weight", ".e_score_correction_bias"};

constexpr std::size_t kMostImaginedExperts = std::size_t{1} << 20;
constexpr double kMostImaginedBytes = 1e18;

ReleaseHabits habits_of(const KimiConfig& config) {
  ReleaseHabits habits;
  habits.float32_suffixes = kFloat32Suffixes;
  // A_log has a value per head, but K3 stores as many as a head is wide.
  if (config.model_type == "kimi_k3") habits.padding = config.kda.dim;
  habits.packed_experts = config.packed_experts;
  return habits;
}

Result<std::unique_ptr<Architecture>> match(KimiConfig config, TensorSource& tensors) {
  auto architecture = std::make_unique<KimiArchitecture>(std::move(config));
  SLUICE_TRY(architecture->match(tensors));
  return architecture;
}

}  // namespace

Result<std::unique_ptr<Architecture>> open_kimi(const std::string& config,
                                                const store::Checkpoint& checkpoint,
                                                std::span<const io::FileId> files) {
  SLUICE_ASSIGN(KimiConfig parsed, parse_kimi_config(config));
  CheckpointTensors tensors(checkpoint, files);
  return match(std::move(parsed), tensors);
}

Result<std::unique_ptr<Architecture>> imagine_kimi(const std::string& config,
                                                   const std::filesystem::path& place) {
  SLUICE_ASSIGN(KimiConfig parsed, parse_kimi_config(config));
  // A checkpoint bounds these by what is there; a config can say anything.
  if (parsed.layers * parsed.moe.router.experts > kMostImaginedExperts) {
    return fail(ErrorKind::model_files,
                "{}: {} layers of {} experts are more than the {} in all that are planned for",
                place.string(), parsed.layers, parsed.moe.router.experts, kMostImaginedExperts);
  }
  ReleaseTensors tensors(place, habits_of(parsed));
  auto architecture = match(std::move(parsed), tensors);
  if (tensors.bytes() > kMostImaginedBytes) {
    return fail(ErrorKind::model_files, "{}: the sizes make a model of more than {:.0f} PB",
                place.string(), kMostImaginedBytes / 1e15);
  }
  return architecture;
}

}  // namespace sluice::model
