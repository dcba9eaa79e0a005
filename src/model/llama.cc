#include "model/llama.h"

#include <algorithm>

#include "base/buffer.h"
#include "base/clock.h"
#include "kernels/ops.h"
#include "model/gqa.h"
#include "model/llama_config.h"
#include "model/mlp.h"
#include "model/pass_rows.h"

namespace sluice::model {
namespace {

constexpr kernels::Glu kSwiGlu = {};

struct LlamaLayer {
  Vector attention_norm, ffn_norm;  ///< [hidden]
  GqaWeights attention;
  MlpWeights mlp;
};

struct LlamaWeights {
  std::vector<LlamaLayer> layers;
  EmbeddingTable embedding;
  std::optional<Vector> rope_divisors;  ///< [dim / 2]
  Vector final_norm;                    ///< [hidden]
  Matrix head;                          ///< [vocabulary, hidden]
};

/// What a container calls the tensors of a layer.
struct LayerNames {
  std::string attention_norm, ffn_norm;
  GqaNames attention;
  std::string gate, up, down;
};

LayerNames names_of(const LlamaConfig& config, std::size_t index) {
  if (config.gguf) {
    const std::string layer = fmt::format("blk.{}.", index);
    return {layer + "attn_norm.weight",
            layer + "ffn_norm.weight",
            {layer + "attn_q", layer + "attn_k", layer + "attn_v", layer + "attn_output",
             layer + "attn_q_norm.weight", layer + "attn_k_norm.weight"},
            layer + "ffn_gate.weight",
            layer + "ffn_up.weight",
            layer + "ffn_down.weight"};
  }
  const std::string layer = fmt::format("model.layers.{}.", index);
  const std::string attention = layer + "self_attn.";
  return {layer + "input_layernorm.weight",
          layer + "post_attention_layernorm.weight",
          {attention + "q_proj", attention + "k_proj", attention + "v_proj", attention + "o_proj",
           attention + "q_norm.weight", attention + "k_norm.weight"},
          layer + "mlp.gate_proj.weight",
          layer + "mlp.up_proj.weight",
          layer + "mlp.down_proj.weight"};
}

LlamaLayer find_layer(BlueprintBuilder& builder, const LlamaConfig& config, std::size_t index) {
  const LayerNames names = names_of(config, index);
  builder.section(TensorClass::trunk, static_cast<int>(index));
  LlamaLayer layer;
  layer.attention_norm = builder.vector(names.attention_norm, config.hidden);
  layer.ffn_norm = builder.vector(names.ffn_norm, config.hidden);
  layer.attention = find_gqa(builder, names.attention, config.attention, config.hidden);
  layer.mlp.gate = builder.matrix(names.gate, config.width, config.hidden);
  layer.mlp.up = builder.matrix(names.up, config.width, config.hidden);
  layer.mlp.down = builder.matrix(names.down, config.hidden, config.width);
  // Old checkpoints have the frequencies of the rotation, which follow from the configuration.
  if (!config.gguf) {
    builder.leave_out(fmt::format("model.layers.{}.self_attn.rotary_emb.", index));
  }
  return layer;
}

/// Asks for every tensor, in the order in which a pass uses the matrices.
LlamaWeights find_llama(BlueprintBuilder& builder, const LlamaConfig& config) {
  const char* const embedding = config.gguf ? "token_embd.weight" : "model.embed_tokens.weight";
  const char* const head = config.gguf ? "output.weight" : "lm_head.weight";
  LlamaWeights weights;
  builder.section(TensorClass::embedding, -1);
  weights.embedding = builder.embedding(embedding, config.vocabulary, config.hidden, config.tied);
  for (std::size_t layer = 0; layer < config.layers; ++layer) {
    weights.layers.push_back(find_layer(builder, config, layer));
  }
  builder.section(TensorClass::final_norms, -1);
  if (config.rope_divisors) {
    weights.rope_divisors = builder.vector("rope_freqs.weight", config.rope.dim / 2);
  }
  weights.final_norm =
      builder.vector(config.gguf ? "output_norm.weight" : "model.norm.weight", config.hidden);
  builder.section(TensorClass::head, -1);
  weights.head = builder.matrix(config.tied ? embedding : head, config.vocabulary, config.hidden);
  if (config.tied) builder.leave_out(head);
  return weights;
}

/// All activations of a pass, [positions, ...] each.
struct LlamaScratch {
  float* sum;            ///< [positions, hidden]: the running sum
  float* normed;         ///< [positions, hidden]
  float* part_out;       ///< [positions, hidden]: of attention or feed-forward network
  float* prepared;       ///< for inputs of width hidden
  float* angles;         ///< [positions, dim]
  GqaScratch attention;  ///< the two share their room: one is in use at a time
  MlpScratch mlp;
  float* head_in;  ///< [logit rows, hidden]
  float* head_prepared;
  float* logits;  ///< [logit rows, vocabulary]
};

LlamaScratch lay_out_llama(Arena& arena, const LlamaConfig& config, const PassLimits& limits,
                           int threads) {
  const std::size_t rows = limits.positions * config.hidden;
  LlamaScratch s{};
  for (float** part : {&s.sum, &s.normed, &s.part_out}) *part = arena.take(rows);
  s.prepared = arena.take(kernels::prepared_floats(config.hidden, limits.positions));
  s.angles = arena.take(limits.positions * config.attention.dim);
  const std::size_t mark = arena.mark();
  s.attention = lay_out_gqa(arena, config.attention, limits.positions, limits.context, threads);
  arena.back_to(mark);
  s.mlp = lay_out_mlp(arena, config.width, limits.positions);
  arena.back_to(mark);
  s.head_in = arena.take(limits.logit_rows * config.hidden);
  s.head_prepared = arena.take(kernels::prepared_floats(config.hidden, limits.logit_rows));
  s.logits = arena.take(limits.logit_rows * config.vocabulary);
  return s;
}

/// The KV cache of one sequence, layer after layer.
class LlamaState final : public SequenceState {
 public:
  static std::uint64_t bytes(const LlamaConfig& config, std::size_t context) {
    return config.layers * config.attention.cache_floats(context) * sizeof(float);
  }

  static Result<std::unique_ptr<SequenceState>> make(const LlamaConfig& config, std::size_t context,
                                                     MemoryLedger& ledger) {
    std::unique_ptr<LlamaState> state(new LlamaState(config, context));
    SLUICE_ASSIGN(state->room_, Buffer::allocate(bytes(config, context), Tenant::state, ledger));
    return state;
  }

  void reset() override { length_ = 0; }  // what the cache holds past it is never read

  void for_each_piece(std::size_t length,
                      FunctionRef<void(std::span<std::byte>)> visit) const override {
    for (std::size_t head = 0; head < heads_; ++head) {
      visit(std::as_writable_bytes(
          room_.floats().subspan(head * context_ * head_floats_, length * head_floats_)));
    }
  }

  float* of_layer(std::size_t layer) { return room_.floats().data() + layer * layer_floats_; }
  void advance(std::size_t positions) { length_ += positions; }

 private:
  LlamaState(const LlamaConfig& config, std::size_t context)
      : SequenceState(context),
        layer_floats_(config.attention.cache_floats(context)),
        head_floats_(config.attention.dim),
        heads_(config.layers * 2 * config.attention.kv_heads) {}

  std::size_t layer_floats_;
  std::size_t head_floats_;  // of one position
  std::size_t heads_;        // keys and values of all layers, each [context, head_floats_]
  Buffer room_;
};

/// One pass on its way through the layers.
class LlamaNetwork final : public Network {
 public:
  LlamaNetwork(const LlamaConfig& config, const LlamaWeights& weights, const PassLimits& limits,
               const Resources& resources, VectorTable vectors)
      : config_(config),
        weights_(weights),
        limits_(limits),
        resources_(resources),
        executor_(resources.threads, resources.trunk, resources.experts, resources.trace),
        vectors_(std::move(vectors)),
        rope_(config.rope, divisors()) {}

  Status initialize() {
    SLUICE_ASSIGN(embedding_room_, Buffer::allocate(embedding_room(weights_.embedding),
                                                    Tenant::activations, resources_.ledger));
    Arena measure(nullptr);
    lay_out_llama(measure, config_, limits_, resources_.threads.threads());
    SLUICE_ASSIGN(room_, Buffer::allocate(measure.most() * sizeof(float), Tenant::activations,
                                          resources_.ledger));
    Arena arena(room_.floats().data());
    scratch_ = lay_out_llama(arena, config_, limits_, resources_.threads.threads());
    return {};
  }

  Result<std::unique_ptr<SequenceState>> new_state(std::size_t context) override {
    if (context > limits_.context) {
      return fail(ErrorKind::usage, "a context of {} positions was asked for, the limit is {}",
                  context, limits_.context);
    }
    return LlamaState::make(config_, context, resources_.ledger);
  }

  Result<std::span<const float>> run(const Pass& pass) override {
    SLUICE_ASSIGN(rows_, PassRows::admit(pass, limits_, config_.vocabulary));
    executor_.watch(pass.cancellation);
    auto logits = run_admitted(pass);
    if (!logits) resources_.trunk.abort();
    return logits;
  }

  double io_wait_s() const override { return embedding_wait_s_ + resources_.trunk.wait_s(); }

 private:
  std::span<const float> divisors() const {
    if (!weights_.rope_divisors) return {};
    return {vectors_[*weights_.rope_divisors], weights_.rope_divisors->count};
  }

  Result<std::span<const float>> run_admitted(const Pass& pass);
  Status embed(const Pass& pass);
  void compute_angles();
  Status run_layer(std::size_t index, const Pass& pass);
  Result<std::span<const float>> head();
  Input normed(const Vector& weight);
  std::size_t floats() const { return rows_.positions * config_.hidden; }
  static LlamaState& state_of(const Pass& pass, std::size_t segment) {
    return *static_cast<LlamaState*>(pass.segments[segment].state);
  }

  const LlamaConfig& config_;
  const LlamaWeights& weights_;
  const PassLimits limits_;
  Resources resources_;
  Executor executor_;
  VectorTable vectors_;
  Rope rope_;
  Buffer embedding_room_;
  Buffer room_;
  LlamaScratch scratch_{};
  double embedding_wait_s_ = 0;
  PassRows rows_;  // of the pass under way
};

Result<std::span<const float>> LlamaNetwork::run_admitted(const Pass& pass) {
  resources_.trunk.begin_pass(!rows_.logit_rows.empty());
  SLUICE_TRY(embed(pass));
  compute_angles();
  for (std::size_t layer = 0; layer < config_.layers; ++layer) {
    if (pass.observer != nullptr) pass.observer->on_layer_begin(layer);
    SLUICE_TRY(run_layer(layer, pass));
    if (pass.observer != nullptr) pass.observer->on_hidden(layer, {scratch_.sum, floats()});
  }
  SLUICE_ASSIGN(const std::span<const float> logits, head());
  for (std::size_t segment = 0; segment < pass.segments.size(); ++segment) {
    state_of(pass, segment).advance(rows_.segments[segment].count);
  }
  return logits;
}

Status LlamaNetwork::embed(const Pass& pass) {
  executor_.enter_layer(Trace::kNoLayer);
  const TraceSpan traced = executor_.span("embedding", "embedding");
  const auto start = Clock::now();
  for (std::size_t i = 0; i < pass.segments.size(); ++i) {
    SLUICE_TRY(read_embedding(weights_.embedding, pass.segments[i].tokens, resources_.reader,
                              embedding_room_.bytes(),
                              scratch_.sum + rows_.segments[i].first * config_.hidden));
  }
  embedding_wait_s_ += seconds_since(start);
  return {};
}

void LlamaNetwork::compute_angles() {
  for (const RowRange& range : rows_.segments) {
    executor_.parallel(range.count, [&](std::size_t i, int) {
      rope_.angles(range.past + i, scratch_.angles + (range.first + i) * config_.attention.dim);
    });
  }
}

Input LlamaNetwork::normed(const Vector& weight) {
  executor_.parallel(rows_.positions, [&](std::size_t row, int) {
    const std::size_t at = row * config_.hidden;
    kernels::rms_norm(scratch_.sum + at, vectors_[weight], config_.hidden, config_.epsilon,
                      scratch_.normed + at);
  });
  return {scratch_.normed, config_.hidden, rows_.positions, scratch_.prepared};
}

Status LlamaNetwork::run_layer(std::size_t index, const Pass& pass) {
  const LlamaLayer& layer = weights_.layers[index];
  executor_.enter_layer(index);
  const auto cache = [&](std::size_t segment) { return state_of(pass, segment).of_layer(index); };
  const auto context = [&](std::size_t segment) { return state_of(pass, segment).context(); };
  const GqaPass attention = {rows_.segments, cache, context, scratch_.angles};
  Input x = normed(layer.attention_norm);
  {
    const TraceSpan traced = executor_.span("attention", "GQA");
    SLUICE_TRY(run_gqa(layer.attention, config_.attention, rope_, config_.epsilon, vectors_,
                       executor_, scratch_.attention, attention, x, scratch_.part_out));
  }
  kernels::add(scratch_.part_out, floats(), scratch_.sum);
  Input y = normed(layer.ffn_norm);
  {
    const TraceSpan traced = executor_.span("feed forward", "MLP");
    SLUICE_TRY(run_mlp(layer.mlp, kSwiGlu, executor_, scratch_.mlp, y, scratch_.part_out));
  }
  kernels::add(scratch_.part_out, floats(), scratch_.sum);
  if (!kernels::all_finite(scratch_.sum, floats())) {
    return fail(ErrorKind::number,
                "layer {}: the hidden state is not finite after it; the weights are damaged, or "
                "not what the configuration says",
                index);
  }
  return {};
}

Result<std::span<const float>> LlamaNetwork::head() {
  const std::size_t rows = rows_.logit_rows.size();
  if (rows == 0) return std::span<const float>{};
  executor_.enter_layer(Trace::kNoLayer);
  const TraceSpan traced = executor_.span("head", "head");
  for (std::size_t i = 0; i < rows; ++i) {
    kernels::rms_norm(scratch_.sum + rows_.logit_rows[i] * config_.hidden,
                      vectors_[weights_.final_norm], config_.hidden, config_.epsilon,
                      scratch_.head_in + i * config_.hidden);
  }
  Input x(scratch_.head_in, config_.hidden, rows, scratch_.head_prepared);
  SLUICE_TRY(executor_.multiply(weights_.head, x, scratch_.logits));
  const std::span<const float> logits(scratch_.logits, rows * config_.vocabulary);
  if (!kernels::all_finite(logits.data(), logits.size())) {
    return fail(ErrorKind::number,
                "the logits are not finite although every layer's output is: the output head is "
                "damaged");
  }
  return logits;
}

class LlamaArchitecture final : public Architecture {
 public:
  explicit LlamaArchitecture(LlamaConfig config) : config_(std::move(config)) {
    shape_.architecture = config_.model_type;
    shape_.layers = config_.layers;
    shape_.hidden = config_.hidden;
    shape_.vocabulary = config_.vocabulary;
    shape_.max_positions = config_.max_positions;
    shape_.end_ids = config_.end_ids;
    shape_.layer_kinds.assign(config_.layers, "GQA, dense");
  }

  Status match(TensorSource& tensors) {
    BlueprintBuilder builder(tensors, config_.layers, 0);
    weights_ = find_llama(builder, config_);
    SLUICE_ASSIGN(blueprint_, builder.finish());
    return {};
  }

  const Shape& shape() const override { return shape_; }
  const Blueprint& blueprint() const override { return blueprint_; }

  std::uint64_t state_bytes(std::size_t context) const override {
    return Buffer::charge_for(LlamaState::bytes(config_, context));
  }

  std::uint64_t activation_bytes(const PassLimits& limits, int threads) const override {
    Arena measure(nullptr);
    lay_out_llama(measure, config_, limits, threads);
    return Buffer::charge_for(measure.most() * sizeof(float)) +
           Buffer::charge_for(embedding_room(weights_.embedding));
  }

  Result<std::unique_ptr<Network>> make_network(const Resources& resources,
                                                const PassLimits& limits,
                                                VectorTable vectors) const override {
    auto network =
        std::make_unique<LlamaNetwork>(config_, weights_, limits, resources, std::move(vectors));
    SLUICE_TRY(network->initialize());
    return network;
  }

 private:
  LlamaConfig config_;
  LlamaWeights weights_;
  Blueprint blueprint_;
  Shape shape_;
};

Result<std::unique_ptr<Architecture>> match(LlamaConfig config, TensorSource& tensors) {
  auto architecture = std::make_unique<LlamaArchitecture>(std::move(config));
  SLUICE_TRY(architecture->match(tensors));
  return architecture;
}

}  // namespace

Result<std::unique_ptr<Architecture>> open_llama(const std::string& config,
                                                 const store::Checkpoint& checkpoint,
                                                 std::span<const io::FileId> files) {
  SLUICE_ASSIGN(LlamaConfig parsed, parse_llama_config(config));
  CheckpointTensors tensors(checkpoint, files);
  return match(std::move(parsed), tensors);
}

Result<std::unique_ptr<Architecture>> open_llama_gguf(const store::Checkpoint& checkpoint,
                                                      std::span<const io::FileId> files) {
  SLUICE_ASSIGN(LlamaConfig parsed, read_llama_metadata(checkpoint, *checkpoint.metadata()));
  CheckpointTensors tensors(checkpoint, files);
  return match(std::move(parsed), tensors);
}

Result<std::unique_ptr<Architecture>> imagine_llama(const std::string& config,
                                                    const std::filesystem::path& place) {
  SLUICE_ASSIGN(LlamaConfig parsed, parse_llama_config(config));
  ReleaseTensors tensors(place, {});
  constexpr double kMostBytes = 1e18;
  auto architecture = match(std::move(parsed), tensors);
  if (tensors.bytes() > kMostBytes) {
    return fail(ErrorKind::model_files, "{}: the sizes make a model of more than {:.0f} PB",
                place.string(), kMostBytes / 1e15);
  }
  return architecture;
}

}  // namespace sluice::model
