// Promise 2, the same bits: a sequence that was saved and loaded goes on as if nothing had
// happened.
#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

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

/// A checkpoint, and how its caches keep what is past.
using Kept = std::tuple<const char*, kernels::WeightFormat>;
class CutAnywhere : public ::testing::TestWithParam<Kept> {};

TEST_P(CutAnywhere, GoesOnWithTheSameBits) {
  constexpr std::size_t kChunk = 32;
  constexpr std::size_t kLength = 150;
  EngineOptions options;
  options.cache_format = std::get<1>(GetParam());
  options.chunk = kChunk;
  const auto engine = open_engine(std::get<0>(GetParam()), options);
  ASSERT_TRUE(engine) << engine.error().message;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> others;
  for (std::size_t i = 0; i < kLength; ++i) {
    tokens.push_back(static_cast<std::int32_t>((i * 37 + 5) % 80));
    others.push_back(static_cast<std::int32_t>((i * 29 + 11) % 80));
  }
  const auto feed = [&](model::SequenceState& sequence, std::size_t first, std::size_t end) {
    const auto logits = (*engine)->feed(sequence, std::span(tokens).subspan(first, end - first));
    EXPECT_TRUE(logits) << logits.error().message;
    return logits ? std::vector<float>(logits->begin(), logits->end()) : std::vector<float>();
  };
  // Around chunks, and around the ends of the rings of windows: 6 or 7 positions look back here,
  // and 64 may be appended at once.
  auto sequence = std::move(*(*engine)->new_sequence());
  std::map<std::size_t, std::vector<std::byte>> saved;
  std::size_t length = 0;
  std::vector<float> expected;
  for (const std::size_t cut : {1, 31, 32, 33, 64, 68, 69, 70, 71, 128, 138, 149, 150}) {
    expected = feed(*sequence, length, cut);
    length = cut;
    saved[cut].resize(sequence->saved_bytes());
    sequence->save(saved[cut]);
  }
  ASSERT_EQ(length, kLength);
  for (const auto& [cut, bytes] : saved) {
    if (cut == kLength) break;
    sequence->reset();
    ASSERT_TRUE((*engine)->feed(*sequence, others)) << "so that nothing right is there by chance";
    ASSERT_TRUE(sequence->load(bytes)) << cut;
    ASSERT_EQ(sequence->length(), cut);
    ASSERT_TRUE(feed(*sequence, cut, kLength) == expected) << cut;
    std::vector<std::byte> again(sequence->saved_bytes());
    sequence->save(again);
    ASSERT_TRUE(again == saved[kLength]) << cut;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints, CutAnywhere,
    ::testing::Combine(::testing::Values("k3-tiny", "kl-tiny", "llama-tiny", "gemma3-tiny",
                                         "mistral-window-tiny", "gpt-oss-tiny", "deepseek-tiny",
                                         "qwen3moe-tiny"),
                       ::testing::Values(kernels::WeightFormat::f32, kernels::WeightFormat::bf16,
                                         kernels::WeightFormat::q8_0)),
    [](const auto& test) {
      return test_name(std::get<0>(test.param)) + "_" +
             std::string(kernels::cache_format_name(std::get<1>(test.param)));
    });

TEST(SavedSequences, FitIntoASmallerContextThatHoldsThem) {
  for (const char* model : {"k3-tiny", "llama-tiny", "gemma3-tiny", "mistral-window-tiny"}) {
    EngineOptions options;
    options.context = 48;  // fewer rows than the ring of a window has at most
    const auto large = open_engine(model);
    const auto small = open_engine(model, options);
    ASSERT_TRUE(large && small);
    const auto from = std::move(*(*large)->new_sequence());
    const auto to = std::move(*(*small)->new_sequence());
    std::vector<std::int32_t> tokens;
    for (std::int32_t i = 0; i < 120; ++i) tokens.push_back((i * 37 + 5) % 80);
    ASSERT_TRUE((*large)->feed(*from, std::span(tokens).first(40)));
    std::vector<std::byte> bytes(from->saved_bytes());
    from->save(bytes);
    ASSERT_TRUE(to->load(bytes)) << model;
    const auto expected = (*large)->feed(*from, std::span(tokens).subspan(40, 8));
    const auto found = (*small)->feed(*to, std::span(tokens).subspan(40, 8));
    ASSERT_TRUE(expected && found) << model;
    EXPECT_TRUE(std::ranges::equal(*found, *expected)) << model;
    ASSERT_TRUE((*large)->feed(*from, std::span(tokens).subspan(48)));
    bytes.resize(from->saved_bytes());
    from->save(bytes);
    EXPECT_FALSE(to->load(bytes)) << model << ": 120 positions do not fit into 48";
    EXPECT_EQ(to->length(), 0u);
  }
}

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
