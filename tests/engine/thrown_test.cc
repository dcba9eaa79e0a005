// What a callback throws ends its own pass only.
#include <algorithm>
#include <stdexcept>

#include "engine/golden.h"

namespace sluice::engine {
namespace {

TEST(Thrown, InAnyLayerOfAPassTheNextOneHasItsBitsAllTheSame) {
  EngineOptions options;
  options.all_logits = true;
  const auto engine = open_engine("k3-tiny", options);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto expected = trace(**engine, kPrompt);
  ASSERT_TRUE(expected);
  for (std::size_t layer = 0; layer < (*engine)->shape().layers; ++layer) {
    FeedOptions thrower;
    thrower.on_progress = [layer](const Progress& now) {
      if (now.layer == layer) throw std::runtime_error("on purpose");
    };
    const auto sequence = (*engine)->new_sequence();
    ASSERT_TRUE(sequence);
    EXPECT_THROW(static_cast<void>((*engine)->feed(**sequence, kPrompt, thrower)),
                 std::runtime_error);
    const auto again = trace(**engine, kPrompt);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->logits, expected->logits) << layer;
    // Its own sequence is empty, not half full.
    EXPECT_EQ((*sequence)->length(), 0u);
    const auto last = (*engine)->feed(**sequence, kPrompt);
    ASSERT_TRUE(last) << last.error().message;
    EXPECT_TRUE(std::ranges::equal(*last, std::span(expected->logits).last(last->size()))) << layer;
  }
}

}  // namespace
}  // namespace sluice::engine
