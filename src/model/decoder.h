// What the decoders have in common: a pass is admitted, embedded, taken through the layers in
// order, and its last rows through the output head.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "model/arena.h"
#include "model/blueprint.h"
#include "model/decoder_state.h"
#include "model/executor.h"
#include "model/lookahead.h"
#include "model/moe.h"
#include "model/network.h"
#include "model/pass_rows.h"
#include "model/rope.h"
#include "model/vectors.h"

namespace sluice::model {

/// What is before and after the layers.
struct DecoderEnds {
  EmbeddingTable embedding;
  Vector final_norm;  ///< [hidden]
  Matrix head;        ///< [vocabulary, hidden]
};

/// The activations of a pass outside the parts of a layer.
struct DecoderScratch {
  float* sum;       ///< [positions, hidden]: the running sum
  float* normed;    ///< [positions, hidden]
  float* part_out;  ///< [positions, hidden]: of attention or feed-forward network
  float* prepared;  ///< for inputs of width hidden
  float* head_in;   ///< [logit rows, hidden]
  float* head_prepared;
  float* logits;  ///< [logit rows, vocabulary]
};
/// The arena goes on behind what lasts from layer to layer, where also the head's room begins: a
/// layer's parts may share that room.
DecoderScratch lay_out_decoder(Arena& arena, const Shape& shape, const PassLimits& limits);

/// What a decoder is made of; all outlive it but the table of vectors.
struct DecoderParts {
  const Shape& shape;
  const DecoderEnds& ends;
  std::span<const LayerState> states;  ///< by layer
  float epsilon;                       ///< of the norms
};

/// One pass on its way through the layers, which the architecture computes.
class Decoder : public Network {
 public:
  Decoder(const DecoderParts& parts, const PassLimits& limits, const Resources& resources,
          VectorTable vectors);

  /// Takes the memory of the activations: `floats` of them, and what adapters need beside.
  Status initialize(std::size_t floats);

  Result<std::unique_ptr<SequenceState>> new_state(std::size_t context) override;
  Result<std::span<const float>> run(const Pass& pass) override;
  void accept(std::size_t count) override { append(count); }
  double io_wait_s() const override;

 protected:
  /// Takes rows [first, first + count) of a pass that is_tried() into what the layers' states have
  /// beside caches, which hold them already.
  virtual void keep_rows(std::size_t first, std::size_t count) {
    static_cast<void>(first);
    static_cast<void>(count);
  }
  /// Where the activations lie; called once.
  virtual DecoderScratch lay_out(Arena& arena) = 0;
  /// The rows are embedded, the first layer follows.
  virtual void begin_layers() {}
  /// From the running sum before the layer to the one after it.
  virtual Status run_layer(std::size_t index, PassObserver* observer) = 0;
  /// What the final norm takes of a row; `room` [hidden] may be used for it.
  virtual const float* before_final_norm(std::size_t row, float* room);

  /// RMSNorm of the rows of x [positions, hidden], as the input of matrices.
  Input normed(const float* x, const Vector& weight);
  /// sum += part_out.
  void add_part();
  /// The rotation of every row, the same in all layers that use the rope: table [positions, dim].
  void find_angles(const Rope& rope, float* table);
  /// A layer's mixture on x into part_out; the observer gets its picks.
  Status run_mixture(const MoeWeights& weights, const MoeConfig& config, const kernels::Glu& glu,
                     const MoeScratch& scratch, PassObserver* observer, Input& x);
  /// Whether it is worth guessing the picks of the layers of this pass.
  bool guesses() const { return rows_.positions == 1 && lookahead_.guesses() > 0; }
  /// The router of a layer on the state before its attention, normed with the weight before its
  /// feed-forward network: right often enough where attention moves the state little, and early
  /// enough to read while it is computed.
  void guess(const MoeWeights& weights, const MoeConfig& config, const MoeScratch& scratch,
             const float* state, const Vector& norm);
  /// What a segment's sequence keeps in a layer: its recurrent state, its caches.
  float* state_of(std::size_t segment, std::size_t layer) const {
    return states_[segment]->fixed_part(layer);
  }
  LayerCaches caches_of(std::size_t segment, std::size_t layer) const {
    return states_[segment]->caches(layer);
  }
  std::size_t positions() const { return rows_.positions; }
  /// Whether the rows of the pass are kept one by one, once it is done: it has drafts.
  bool is_tried() const { return rows_.drafts > 0; }
  std::span<const RowRange> segments() const { return rows_.segments; }
  std::size_t floats() const { return rows_.positions * parts_.shape.hidden; }
  const DecoderScratch& scratch() const { return scratch_; }
  int threads() const { return resources_.threads.threads(); }

  const DecoderParts parts_;
  const PassLimits limits_;
  Resources resources_;
  Executor executor_;
  VectorTable vectors_;

 private:
  Result<std::span<const float>> run_admitted(const Pass& pass);
  void append(std::size_t rows);
  Status embed(const Pass& pass);
  Status check_embeddings(const Pass& pass) const;
  Status run_layers(const Pass& pass);
  Result<std::span<const float>> head();

  Buffer embedding_room_;
  Buffer room_;
  Buffer low_rank_room_;
  LowRankRoom low_rank_;
  DecoderScratch scratch_{};
  Lookahead lookahead_;
  double embedding_wait_s_ = 0;

  // Of the pass under way, or of the last one while its drafts are looked at.
  PassRows rows_;
  std::vector<DecoderState*> states_;
  std::size_t rows_left_ = 0;  // of a pass with drafts, that are not appended
  std::vector<AdaptedRows> adapted_;
};

/// Floats of the activations that adapters need in passes within the limits.
std::size_t low_rank_floats(const PassLimits& limits);

/// The sizes that every configuration has; what kinds its layers are is the family's to say.
template <class Config>
Shape shape_of_decoder(const Config& config) {
  Shape shape;
  shape.architecture = config.model_type;
  shape.layers = config.layers;
  shape.hidden = config.hidden;
  shape.vocabulary = config.vocabulary;
  shape.max_positions = config.max_positions;
  shape.end_ids = config.end_ids;
  return shape;
}

/// The same with the experts of its mixture.
template <class Config>
Shape shape_of_mixture(const Config& config) {
  Shape shape = shape_of_decoder(config);
  shape.experts = config.moe.router.experts;
  shape.top_k = config.moe.router.top_k;
  return shape;
}

/// A checkpoint bounds a model's experts by what is there; a config can say anything.
Status check_imaginable(const Shape& shape, const std::filesystem::path& place);

/// An architecture whose network is a Decoder. `Family` names its parts:
///   Config, Weights (with a member `ends`), Network (made of Config, Weights, DecoderParts,
///   PassLimits, Resources, VectorTable);
///   kFind(BlueprintBuilder&, Config) -> Weights;  shape_of(Config) -> Shape;
///   states_of(Config) -> std::vector<LayerState>, by layer;
///   kLayOut(Arena&, Config, Shape, PassLimits, threads): all activations.
template <class Family>
class DecoderArchitecture final : public Architecture {
 public:
  using Config = typename Family::Config;

  static Result<std::unique_ptr<Architecture>> open(Config config,
                                                    const store::Checkpoint& checkpoint,
                                                    std::span<const io::FileId> files) {
    CheckpointTensors tensors(checkpoint, files);
    return match(std::move(config), tensors);
  }

  /// Without a checkpoint: as the release stores it. `place` is for messages.
  static Result<std::unique_ptr<Architecture>> imagine(Config config,
                                                       const std::filesystem::path& place,
                                                       const ReleaseHabits& habits) {
    SLUICE_TRY(check_imaginable(Family::shape_of(config), place));
    ReleaseTensors tensors(place, habits);
    auto architecture = match(std::move(config), tensors);
    SLUICE_TRY(tensors.check_size());
    return architecture;
  }

  static Result<std::unique_ptr<Architecture>> match(Config config, TensorSource& tensors) {
    std::unique_ptr<DecoderArchitecture> made(new DecoderArchitecture(std::move(config)));
    BlueprintBuilder builder(tensors, made->shape_.layers, made->shape_.top_k);
    made->weights_ = Family::kFind(builder, made->config_);
    SLUICE_ASSIGN(made->blueprint_, builder.finish());
    return made;
  }

  const Shape& shape() const override { return shape_; }
  const Blueprint& blueprint() const override { return blueprint_; }

  void cache_as(kernels::WeightFormat format) override {
    for (LayerState& layer : states_) layer.format = format;
  }

  std::uint64_t state_bytes(std::size_t context) const override {
    return Buffer::charge_for(DecoderState::bytes(states_, context));
  }

  std::uint64_t activation_bytes(const PassLimits& limits, int threads) const override {
    return Buffer::charge_for(activation_floats(limits, threads) * sizeof(float)) +
           Buffer::charge_for(low_rank_floats(limits) * sizeof(float)) +
           Buffer::charge_for(embedding_room(weights_.ends.embedding));
  }

  Result<std::unique_ptr<Network>> make_network(const Resources& resources,
                                                const PassLimits& limits,
                                                VectorTable vectors) const override {
    const DecoderParts parts = {shape_, weights_.ends, states_, config_.epsilon};
    auto network = std::make_unique<typename Family::Network>(config_, weights_, parts, limits,
                                                              resources, std::move(vectors));
    SLUICE_TRY(network->initialize(activation_floats(limits, resources.threads.threads())));
    return network;
  }

 private:
  explicit DecoderArchitecture(Config config)
      : config_(std::move(config)),
        shape_(Family::shape_of(config_)),
        states_(Family::states_of(config_)) {}

  std::size_t activation_floats(const PassLimits& limits, int threads) const {
    Arena measure(nullptr);
    Family::kLayOut(measure, config_, shape_, limits, threads);
    return measure.most();
  }

  Config config_;
  Shape shape_;
  std::vector<LayerState> states_;
  typename Family::Weights weights_;
  Blueprint blueprint_;
};

}  // namespace sluice::model
