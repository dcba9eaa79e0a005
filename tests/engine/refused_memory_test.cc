// Memory that a request does not get is that request's error and nobody else's: nothing stays
// charged for it, and the next one is computed as if nothing had happened.
#include <cstring>

#include "base/ledger.h"
#include "engine/golden.h"

namespace sluice::engine {
namespace {

const std::vector<std::int32_t> kFedTokens = {3, 14, 15, 9, 26, 53, 58};

std::vector<float> logits_of(Engine& engine, model::SequenceState& sequence) {
  const auto logits = engine.feed(sequence, kFedTokens);
  EXPECT_TRUE(logits) << logits.error().message;
  return logits ? std::vector<float>(logits->begin(), logits->end()) : std::vector<float>();
}

class RefusedMemory : public ::testing::TestWithParam<const char*> {};

TEST_P(RefusedMemory, OfASequenceIsItsOwnErrorAndHarmsNoOther) {
  const auto opened = open_engine(GetParam());
  ASSERT_TRUE(opened) << opened.error().message;
  Engine& engine = **opened;
  auto first = *engine.new_sequence();
  const std::vector<float> expected = logits_of(engine, *first);
  MemoryLedger& ledger = engine.ledger();
  const std::uint64_t before = ledger.charged();
  // Others hold all that is left.
  const std::uint64_t left = ledger.available();
  ASSERT_TRUE(ledger.charge(Tenant::program, left));
  for (int again = 0; again < 20; ++again) {
    const auto refused = engine.new_sequence();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::memory) << refused.error().message;
    EXPECT_EQ(ledger.charged(), before + left) << "nothing is charged for what was refused";
    first->reset();
    ASSERT_EQ(logits_of(engine, *first), expected) << "who has memory goes on";
  }
  ledger.release(Tenant::program, left);
  EXPECT_EQ(ledger.charged(), before);
  first.reset();
  const auto next = engine.new_sequence();
  ASSERT_TRUE(next) << next.error().message;
  EXPECT_EQ(logits_of(engine, **next), expected);
}

TEST_P(RefusedMemory, OfATextBeyondTheContextLeavesTheSequenceAsItWas) {
  EngineOptions options;
  options.context = 16;
  const auto engine = open_engine(GetParam(), options);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto sequence = (*engine)->new_sequence();
  ASSERT_TRUE(sequence);
  logits_of(**engine, **sequence);
  const std::vector<float> expected = logits_of(**engine, **sequence);  // 14 positions
  (*sequence)->reset();
  logits_of(**engine, **sequence);
  const auto refused = (*engine)->feed(**sequence, std::vector<std::int32_t>(10, 5));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::memory);
  EXPECT_EQ((*sequence)->length(), kFedTokens.size()) << "nothing of it was computed";
  EXPECT_EQ(logits_of(**engine, **sequence), expected);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, RefusedMemory,
                         ::testing::Values("k3-tiny", "llama-tiny", "gpt-oss-tiny"),
                         [](const auto& test) { return test_name(test.param); });

}  // namespace
}  // namespace sluice::engine
