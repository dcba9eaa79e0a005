// What a sequence keeps in the layers of a decoder: recurrent state and caches.
#pragma once

#include <memory>
#include <vector>

#include "base/buffer.h"
#include "model/layer_caches.h"
#include "model/network.h"

namespace sluice::model {

/// What one layer keeps of a sequence: a fixed part, then caches one after the other.
struct LayerState {
  std::size_t fixed = 0;   ///< floats; zero in an empty sequence
  std::size_t caches = 0;  ///< each LayerCaches::rows_for(window, context) positions
  std::size_t width = 0;   ///< numbers of a position in a cache
  std::size_t window = 0;  ///< positions that one looks back on, itself included; 0: all
  kernels::WeightFormat format = kernels::WeightFormat::f32;  ///< of the caches
};

/// The state of one sequence: layer after layer in one buffer.
class DecoderState final : public SequenceState {
 public:
  static std::uint64_t bytes(std::span<const LayerState> layers, std::size_t context);

  /// `layers` outlives the state.
  static Result<std::unique_ptr<SequenceState>> make(std::span<const LayerState> layers,
                                                     std::size_t context, MemoryLedger& ledger);

  void reset() override;
  float* fixed_part(std::size_t layer) {
    return room_.floats().data() + offset_[layer] / sizeof(float);
  }
  LayerCaches caches(std::size_t layer) const;

 private:
  DecoderState(std::span<const LayerState> layers, std::size_t context);
  void for_each_piece(std::size_t length,
                      FunctionRef<void(std::span<std::byte>)> visit) const override;

  std::span<const LayerState> layers_;
  std::vector<std::uint64_t> offset_;  // of each layer, in bytes
  Buffer room_;
};

}  // namespace sluice::model
