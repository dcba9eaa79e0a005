// Promise 2, the same bits: a sequence that was saved and loaded goes on as if nothing had
// happened.
#include <algorithm>
#include <cstring>

#include "engine/golden.h"

namespace sluice::engine {
namespace {

class SavedSequence : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto opened = open_engine(GetParam());
    ASSERT_TRUE(opened) << opened.error().message;
    engine_ = std::move(*opened);
    const nlohmann::json golden = read_golden(GetParam());
    for (const auto& prompt : golden["prompts"]) {
      const auto tokens = prompt["tokens"].get<std::vector<std::int32_t>>();
      if (tokens.size() >= 16 && tokens.size() <= 64) tokens_ = tokens;
    }
    ASSERT_FALSE(tokens_.empty());
  }

  std::vector<float> feed(model::SequenceState& sequence, std::size_t first, std::size_t count) {
    const auto logits = engine_->feed(sequence, std::span(tokens_).subspan(first, count));
    EXPECT_TRUE(logits) << logits.error().message;
    return logits ? std::vector<float>(logits->begin(), logits->end()) : std::vector<float>();
  }

  static std::vector<std::byte> saved(const model::SequenceState& sequence) {
    std::vector<std::byte> bytes(sequence.saved_bytes());
    sequence.save(bytes);
    return bytes;
  }

  std::unique_ptr<Engine> engine_;
  std::vector<std::int32_t> tokens_;
};

TEST_P(SavedSequence, GoesOnWithTheSameBits) {
  auto sequence = std::move(*engine_->new_sequence());
  const std::vector<float> expected = feed(*sequence, 0, tokens_.size());
  const std::vector<std::byte> whole = saved(*sequence);
  EXPECT_LT(saved(*engine_->new_sequence().value()).size(), whole.size());
  for (const std::size_t cut : {std::size_t{1}, std::size_t{5}, tokens_.size() - 1}) {
    sequence->reset();
    feed(*sequence, 0, cut);
    const std::vector<std::byte> bytes = saved(*sequence);
    EXPECT_LE(bytes.size(), whole.size()) << "only what the positions fill";
    sequence->reset();
    feed(*sequence, 3, 9);  // somebody else's words
    ASSERT_TRUE(sequence->load(bytes));
    EXPECT_EQ(sequence->length(), cut);
    const std::vector<float> found = feed(*sequence, cut, tokens_.size() - cut);
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0) << cut;
    EXPECT_EQ(saved(*sequence), whole);
  }
}

TEST_P(SavedSequence, IsRefusedWhenItIsDamagedOrForeign) {
  auto sequence = std::move(*engine_->new_sequence());
  feed(*sequence, 0, 5);
  const std::vector<std::byte> bytes = saved(*sequence);
  const auto refuses = [&](std::vector<std::byte> wrong) {
    const Status status = sequence->load(wrong);
    return !status && status.error().kind == ErrorKind::usage && sequence->length() == 0;
  };
  EXPECT_TRUE(refuses({}));
  EXPECT_TRUE(refuses({bytes.begin(), bytes.end() - 1}));
  for (std::size_t at = 0; at < 32; at += 8) {  // mark, layout, length, size
    std::vector<std::byte> wrong = bytes;
    wrong[at] ^= std::byte{0x40};
    EXPECT_TRUE(refuses(wrong)) << at;
  }
  EXPECT_TRUE(sequence->load(bytes));
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, SavedSequence,
                         ::testing::Values("k3-tiny", "kl-tiny", "llama-tiny", "gemma3-tiny",
                                           "mistral-window-tiny"));

TEST(SavedSequences, OfAnotherKindOfCacheAreRefused) {
  const auto one = open_engine("llama-tiny");
  EngineOptions options;
  options.cache_format = kernels::WeightFormat::bf16;
  const auto other = open_engine("llama-tiny", options);
  ASSERT_TRUE(one && other);
  const auto from = (*one)->new_sequence();
  const auto to = (*other)->new_sequence();
  ASSERT_TRUE((*one)->feed(**from, std::vector<std::int32_t>{5, 6, 7}));
  ASSERT_TRUE((*other)->feed(**to, std::vector<std::int32_t>{5, 6, 7}));
  EXPECT_GT((*from)->saved_bytes(), (*to)->saved_bytes());
  std::vector<std::byte> bytes((*from)->saved_bytes());
  (*from)->save(bytes);
  EXPECT_FALSE((*to)->load(bytes));
}

TEST(SavedSequences, OfAnotherModelAreRefused) {
  const auto one = open_engine("k3-tiny");
  const auto other = open_engine("kl-tiny");
  ASSERT_TRUE(one && other);
  const auto from = (*one)->new_sequence();
  const auto to = (*other)->new_sequence();
  std::vector<std::byte> bytes((*from)->saved_bytes());
  (*from)->save(bytes);
  EXPECT_FALSE((*to)->load(bytes));
}

}  // namespace
}  // namespace sluice::engine
