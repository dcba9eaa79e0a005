// What a sequence takes, for configurations of any size.
#include "model/decoder_state.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/size.h"

namespace sluice::model {
namespace {

TEST(DecoderState, BeyondWhatNumbersHoldIsBeyondAnyMachine) {
  // 2^12 layers x 2 caches x 2^30 positions x 2^19 floats: 2^64 bytes, which would be none.
  const std::vector<LayerState> layers(4096, {.caches = 2, .width = std::size_t{1} << 19});
  constexpr std::size_t kContext = std::size_t{1} << 30;
  EXPECT_EQ(DecoderState::bytes(layers, kContext), kTooManyBytes);
  MemoryLedger ledger(kGiB);
  EXPECT_FALSE(DecoderState::make(layers, kContext, ledger));
}

}  // namespace
}  // namespace sluice::model
