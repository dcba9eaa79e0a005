#include "model/decoder_state.h"

#include <algorithm>

namespace sluice::model {
namespace {

std::uint64_t floats_of(const LayerState& layer, std::size_t context) {
  return layer.fixed + layer.caches * context * layer.width;
}

}  // namespace

std::uint64_t DecoderState::bytes(std::span<const LayerState> layers, std::size_t context) {
  std::uint64_t floats = 0;
  for (const LayerState& layer : layers) floats += floats_of(layer, context);
  return floats * sizeof(float);
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
    offset += floats_of(layer, context);
  }
}

void DecoderState::reset() {
  length_ = 0;  // what the caches hold past it is never read
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    std::fill_n(of_layer(layer), layers_[layer].fixed, 0.0f);
  }
}

void DecoderState::for_each_piece(std::size_t length,
                                  FunctionRef<void(std::span<std::byte>)> visit) const {
  const auto piece = [&](std::uint64_t offset, std::size_t floats) {
    visit(std::as_writable_bytes(room_.floats().subspan(offset, floats)));
  };
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const LayerState& layer = layers_[i];
    if (layer.fixed > 0) piece(offset_[i], layer.fixed);
    for (std::size_t cache = 0; cache < layer.caches; ++cache) {
      piece(offset_[i] + layer.fixed + cache * context_ * layer.width, length * layer.width);
    }
  }
}

}  // namespace sluice::model
