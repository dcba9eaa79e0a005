// What a sequence keeps in the layers of a decoder: recurrent state and caches.
#pragma once

#include <memory>
#include <vector>

#include "base/buffer.h"
#include "model/network.h"

namespace sluice::model {

/// What one layer keeps of a sequence, in floats: a fixed part, then caches one after the other.
struct LayerState {
  std::size_t fixed = 0;   ///< zero in an empty sequence
  std::size_t caches = 0;  ///< each [context, width]
  std::size_t width = 0;   ///< of a position in a cache
};

/// The state of one sequence: layer after layer in one buffer.
class DecoderState final : public SequenceState {
 public:
  static std::uint64_t bytes(std::span<const LayerState> layers, std::size_t context);

  /// `layers` outlives the state.
  static Result<std::unique_ptr<SequenceState>> make(std::span<const LayerState> layers,
                                                     std::size_t context, MemoryLedger& ledger);

  void reset() override;
  float* of_layer(std::size_t layer) { return room_.floats().data() + offset_[layer]; }

 private:
  DecoderState(std::span<const LayerState> layers, std::size_t context);
  void for_each_piece(std::size_t length,
                      FunctionRef<void(std::span<std::byte>)> visit) const override;

  std::span<const LayerState> layers_;
  std::vector<std::uint64_t> offset_;
  Buffer room_;
};

}  // namespace sluice::model
