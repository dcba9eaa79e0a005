#include "model/decoder.h"

#include "base/check.h"
#include "base/clock.h"
#include "kernels/ops.h"

namespace sluice::model {

DecoderScratch lay_out_decoder(Arena& arena, const Shape& shape, const PassLimits& limits) {
  const std::size_t rows = limits.positions * shape.hidden;
  DecoderScratch s{};
  for (float** part : {&s.sum, &s.normed, &s.part_out}) *part = arena.take(rows);
  s.prepared = arena.take(kernels::prepared_floats(shape.hidden, limits.positions));
  const std::size_t mark = arena.mark();
  s.head_in = arena.take(limits.logit_rows * shape.hidden);
  s.head_prepared = arena.take(kernels::prepared_floats(shape.hidden, limits.logit_rows));
  s.logits = arena.take(limits.logit_rows * shape.vocabulary);
  arena.back_to(mark);
  return s;
}

std::size_t low_rank_floats(const PassLimits& limits) {
  if (limits.adapter_rank == 0) return 0;
  Arena measure(nullptr);
  lay_out_low_rank(measure, limits.positions, limits.adapter_rank);
  return measure.most();
}

Status check_imaginable(const Shape& shape, const std::filesystem::path& place) {
  constexpr std::size_t kMost = std::size_t{1} << 20;
  if (shape.layers * shape.experts <= kMost) return {};
  return fail(ErrorKind::model_files,
              "{}: {} layers of {} experts are more than the {} in all that are planned for",
              place.string(), shape.layers, shape.experts, kMost);
}

Decoder::Decoder(const DecoderParts& parts, const PassLimits& limits, const Resources& resources,
                 VectorTable vectors)
    : parts_(parts),
      limits_(limits),
      resources_(resources),
      executor_(resources.threads, resources.trunk, resources.experts, vectors_, resources.trace),
      vectors_(std::move(vectors)),
      lookahead_(resources.lookahead) {}

Status Decoder::initialize(std::size_t floats) {
  SLUICE_ASSIGN(embedding_room_, Buffer::allocate(embedding_room(parts_.ends.embedding),
                                                  Tenant::activations, resources_.ledger));
  SLUICE_ASSIGN(room_,
                Buffer::allocate(floats * sizeof(float), Tenant::activations, resources_.ledger));
  Arena arena(room_.floats().data());
  scratch_ = lay_out(arena);
  SLUICE_CHECK(arena.most() <= floats);
  if (limits_.adapter_rank == 0) return {};
  SLUICE_ASSIGN(low_rank_room_, Buffer::allocate(low_rank_floats(limits_) * sizeof(float),
                                                 Tenant::activations, resources_.ledger));
  Arena low_rank(low_rank_room_.floats().data());
  low_rank_ = lay_out_low_rank(low_rank, limits_.positions, limits_.adapter_rank);
  return {};
}

Result<std::unique_ptr<SequenceState>> Decoder::new_state(std::size_t context) {
  if (context > limits_.context) {
    return fail(ErrorKind::usage, "a context of {} positions was asked for, the limit is {}",
                context, limits_.context);
  }
  return DecoderState::make(parts_.states, context, resources_.ledger);
}

namespace {

/// Ends a pass that does not come to its end, by an error or by what an observer throws: the next
/// one must find nothing of it.
class PassGuard {
 public:
  PassGuard(weights::TrunkStream& trunk, weights::ExpertBanks& experts)
      : trunk_(trunk), experts_(experts) {}
  ~PassGuard() {
    if (done_) return;
    trunk_.abort();
    experts_.abort();
  }
  PassGuard(const PassGuard&) = delete;
  PassGuard& operator=(const PassGuard&) = delete;
  void done() { done_ = true; }

 private:
  weights::TrunkStream& trunk_;
  weights::ExpertBanks& experts_;
  bool done_ = false;
};

}  // namespace

Result<std::span<const float>> Decoder::run(const Pass& pass) {
  rows_left_ = 0;
  SLUICE_ASSIGN(rows_, PassRows::admit(pass, limits_, parts_.shape.vocabulary));
  states_.clear();
  for (const Segment& segment : pass.segments) {
    states_.push_back(dynamic_cast<DecoderState*>(segment.state));
    SLUICE_CHECK(states_.back() != nullptr);
  }
  adapted_.clear();
  for (std::size_t i = 0; i < pass.segments.size(); ++i) {
    if (pass.segments[i].adapter == nullptr) continue;
    adapted_.push_back(
        {pass.segments[i].adapter, rows_.segments[i].first, rows_.segments[i].count});
  }
  executor_.adapt(adapted_, low_rank_);
  executor_.watch(pass.cancellation);
  PassGuard guard(resources_.trunk, resources_.experts);
  auto logits = run_admitted(pass);
  if (logits) guard.done();
  return logits;
}

double Decoder::io_wait_s() const {
  return embedding_wait_s_ + resources_.trunk.wait_s() + resources_.experts.wait_s();
}

Result<std::span<const float>> Decoder::run_admitted(const Pass& pass) {
  resources_.trunk.begin_pass(!rows_.logit_rows.empty());
  SLUICE_TRY(embed(pass));
  begin_layers();
  SLUICE_TRY(run_layers(pass));
  lookahead_.learn(resources_.experts.statistics());
  SLUICE_ASSIGN(const std::span<const float> logits, head());
  if (is_tried()) {
    rows_left_ = rows_.positions;
    append(1);
    return logits;
  }
  for (std::size_t segment = 0; segment < states_.size(); ++segment) {
    states_[segment]->advance(rows_.segments[segment].count);
  }
  return logits;
}

/// The next rows of a pass with drafts become positions of its sequence.
void Decoder::append(std::size_t rows) {
  SLUICE_CHECK(rows <= rows_left_);
  const TraceSpan traced = executor_.span("attention", "append");
  const std::size_t first = rows_.positions - rows_left_;
  SLUICE_CHECK(states_.front()->length() == rows_.segments.front().past + first);
  keep_rows(first, rows);
  states_.front()->advance(rows);
  rows_left_ -= rows;
}

Status Decoder::embed(const Pass& pass) {
  executor_.enter_layer(Trace::kNoLayer);
  const TraceSpan traced = executor_.span("embedding", "embedding");
  const auto start = Clock::now();
  for (std::size_t i = 0; i < pass.segments.size(); ++i) {
    SLUICE_TRY(read_embedding(parts_.ends.embedding, pass.segments[i].tokens, resources_.reader,
                              embedding_room_.bytes(),
                              scratch_.sum + rows_.segments[i].first * parts_.shape.hidden));
  }
  embedding_wait_s_ += seconds_since(start);
  return check_embeddings(pass);
}

Status Decoder::check_embeddings(const Pass& pass) const {
  const float* row = scratch_.sum;
  for (const Segment& segment : pass.segments) {
    for (const std::int32_t token : segment.tokens) {
      if (!kernels::all_finite(row, parts_.shape.hidden)) {
        return fail(ErrorKind::number,
                    "the embedding of token {} holds a number that is NaN or infinite; the weights "
                    "are damaged: check the file, or download its shard again",
                    token);
      }
      row += parts_.shape.hidden;
    }
  }
  return {};
}

Status Decoder::run_layers(const Pass& pass) {
  for (std::size_t layer = 0; layer < parts_.shape.layers; ++layer) {
    if (pass.observer != nullptr) pass.observer->on_layer_begin(layer);
    executor_.enter_layer(layer);
    SLUICE_TRY(run_layer(layer, pass.observer));
    if (!kernels::all_finite(scratch_.sum, floats())) {
      return fail(ErrorKind::number,
                  "layer {}: the hidden state is not finite after it; the weights are damaged, or "
                  "not what the configuration says",
                  layer);
    }
    if (pass.observer != nullptr) pass.observer->on_hidden(layer, {scratch_.sum, floats()});
  }
  return {};
}

const float* Decoder::before_final_norm(std::size_t row, float* /*room*/) {
  return scratch_.sum + row * parts_.shape.hidden;
}

Input Decoder::normed(const float* x, const Vector& weight) {
  const std::size_t hidden = parts_.shape.hidden;
  executor_.parallel(rows_.positions, [&](std::size_t row, int) {
    kernels::rms_norm(x + row * hidden, vectors_[weight], hidden, parts_.epsilon,
                      scratch_.normed + row * hidden);
  });
  return {scratch_.normed, hidden, rows_.positions, scratch_.prepared};
}

void Decoder::find_angles(const Rope& rope, float* table) {
  for (const RowRange& range : rows_.segments) {
    executor_.parallel(range.count, [&](std::size_t i, int) {
      rope.angles(range.past + i, table + (range.first + i) * 2 * rope.pairs());
    });
  }
}

void Decoder::add_part() { kernels::add(scratch_.part_out, floats(), scratch_.sum); }

Status Decoder::run_mixture(const MoeWeights& weights, const MoeConfig& config,
                            const kernels::Glu& glu, const MoeScratch& scratch,
                            PassObserver* observer, Input& x) {
  const TraceSpan traced = executor_.span("feed forward", "MoE");
  SLUICE_TRY(run_moe(weights, config, glu, parts_.epsilon, vectors_, executor_, scratch, x,
                     scratch_.part_out));
  if (observer != nullptr) {
    observer->on_routes(weights.layer, {scratch.ids, rows_.positions * config.router.top_k});
  }
  return {};
}

void Decoder::guess(const MoeWeights& weights, const MoeConfig& config, const MoeScratch& scratch,
                    const float* state, const Vector& norm) {
  Input x = normed(state, norm);
  guess_experts(weights, config, vectors_, executor_, scratch, x, lookahead_.guesses());
}

Result<std::span<const float>> Decoder::head() {
  const std::size_t rows = rows_.logit_rows.size();
  if (rows == 0) return std::span<const float>{};
  executor_.enter_layer(Trace::kNoLayer);
  const TraceSpan traced = executor_.span("head", "head");
  const std::size_t hidden = parts_.shape.hidden;
  for (std::size_t i = 0; i < rows; ++i) {
    float* const out = scratch_.head_in + i * hidden;
    kernels::rms_norm(before_final_norm(rows_.logit_rows[i], out), vectors_[parts_.ends.final_norm],
                      hidden, parts_.epsilon, out);
  }
  Input x(scratch_.head_in, hidden, rows, scratch_.head_prepared);
  SLUICE_TRY(executor_.multiply(parts_.ends.head, x, scratch_.logits));
  return std::span<const float>(scratch_.logits, rows * parts_.shape.vocabulary);
}

}  // namespace sluice::model
