#include "model/decoder_state.h"

#include <algorithm>

#include "base/size.h"

namespace sluice::model {
namespace {

// What drafts overwrite in a ring is out of sight also for a sequence that goes on without them.
static_assert(kMostDrafts < LayerCaches::kAppendedAtOnce);

std::uint64_t bytes_of(const LayerState& layer, std::size_t context) {
  const std::uint64_t row = kernels::cached_row_bytes(layer.format, layer.width);
  const std::uint64_t rows = LayerCaches::rows_for(layer.window, context);
  const std::uint64_t caches = capped_product(capped_product(layer.caches, rows), row);
  return capped_sum(layer.fixed * sizeof(float), round_up(caches, sizeof(float)));
}

/// `count` positions of a cache from `first` on: two pieces where its ring ends between them.
void visit_positions(const LayerCaches& caches, std::size_t cache, std::size_t first,
                     std::size_t count, FunctionRef<void(std::span<std::byte>)> visit) {
  while (count > 0) {
    const std::size_t at = first % caches.rows;
    const std::size_t here = std::min(count, caches.rows - at);
    visit({caches.cache(cache) + at * caches.row_bytes(), here * caches.row_bytes()});
    first += here;
    count -= here;
  }
}

}  // namespace

std::uint64_t DecoderState::bytes(std::span<const LayerState> layers, std::size_t context) {
  std::uint64_t bytes = 0;
  for (const LayerState& layer : layers) bytes = capped_sum(bytes, bytes_of(layer, context));
  return bytes;
}

Result<std::unique_ptr<SequenceState>> DecoderState::make(std::span<const LayerState> layers,
                                                          std::size_t context,
                                                          MemoryLedger& ledger) {
  std::unique_ptr<DecoderState> state(new DecoderState(layers, context));
  SLUICE_ASSIGN(state->room_, Buffer::allocate(bytes(layers, context), Tenant::state, ledger));
  return state;
}

DecoderState::DecoderState(std::span<const LayerState> layers, std::size_t context)
    : SequenceState(context), layers_(layers) {
  std::uint64_t offset = 0;
  for (const LayerState& layer : layers) {
    offset_.push_back(offset);
    offset += bytes_of(layer, context);
  }
}

LayerCaches DecoderState::caches(std::size_t layer) const {
  const LayerState& state = layers_[layer];
  return {.data = room_.bytes().data() + offset_[layer] + state.fixed * sizeof(float),
          .format = state.format,
          .rows = LayerCaches::rows_for(state.window, context_),
          .width = state.width,
          .window = state.window};
}

void DecoderState::reset() {
  length_ = 0;  // what the caches hold past it is never read
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    std::fill_n(fixed_part(layer), layers_[layer].fixed, 0.0f);
  }
}

/// Of a ring only what the next position may look back on, the oldest first: the same bytes
/// wherever the ring begins.
void DecoderState::for_each_piece(std::size_t length,
                                  FunctionRef<void(std::span<std::byte>)> visit) const {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const LayerState& layer = layers_[i];
    const LayerCaches caches = this->caches(i);
    if (layer.fixed > 0)
      visit({caches.data - layer.fixed * sizeof(float), layer.fixed * sizeof(float)});
    const std::size_t kept = layer.window == 0 ? length : std::min(length, layer.window - 1);
    for (std::size_t cache = 0; cache < layer.caches; ++cache) {
      visit_positions(caches, cache, length - kept, kept, visit);
    }
  }
}

}  // namespace sluice::model
