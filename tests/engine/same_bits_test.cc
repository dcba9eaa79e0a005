// Promise 2, same bits everywhere: placement, threads, chunks, readers and delays change the speed
// of a run and nothing else.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "engine/golden.h"
#include "engine/pressure.h"
#include "engine/smallest.h"
#include "io/fault_reader.h"

namespace sluice::engine {
namespace {

std::vector<std::int32_t> prompt_of(const std::string& name) {
  const nlohmann::json golden = read_golden(name);
  for (const auto& prompt : golden["prompts"]) {
    const auto tokens = prompt["tokens"].get<std::vector<std::int32_t>>();
    if (tokens.size() >= 16 && tokens.size() <= 64) return tokens;
  }
  ADD_FAILURE() << "no prompt of a fitting length in " << name;
  return {1};
}

class SameBits : public ::testing::TestWithParam<const char*> {};

TEST_P(SameBits, Promise2EveryBudgetThreadCountChunkAndReader) {
  const auto tokens = prompt_of(GetParam());
  EngineOptions options = options_for(GetParam());
  options.all_logits = true;
  const auto engine = Engine::open(options);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto expected = trace(**engine, tokens);
  ASSERT_TRUE(expected) << expected.error().message;

  int compared = 0;
  for (const std::size_t chunk : {1, 3, 7, 64}) {
    for (const int threads : {1, 2, 4}) {
      for (const io::IoMode mode : {io::IoMode::pread, io::IoMode::uring, io::IoMode::mmap}) {
        options.chunk = chunk;
        options.threads = threads;
        options.io = mode;
        for (const std::uint64_t spare : {0u, 10u << 20, 1u << 30}) {
          const auto each = open_smallest(options, spare);
          ASSERT_TRUE(each) << each.error().message;
          const auto first = trace(**each, tokens);
          ASSERT_TRUE(first) << first.error().message;
          ASSERT_TRUE(same_bits(*first, *expected))
              << "chunk " << chunk << " threads " << threads << " spare " << spare;
          ++compared;
        }
      }
    }
  }
  EXPECT_EQ(compared, 4 * 3 * 3 * 3);
}

TEST_P(SameBits, Promise2AChunkThatNeedsMoreExpertsThanThereIsRoomFor) {
  // Over 200 positions nearly every expert of a layer is picked; the banks hold a few.
  std::vector<std::int32_t> tokens;
  EngineOptions options = options_for(GetParam());
  options.all_logits = true;
  const auto engine = Engine::open(options);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto ids =
      static_cast<std::int32_t>(std::min<std::size_t>((*engine)->shape().vocabulary, 500));
  for (std::int32_t i = 0; i < 200; ++i) tokens.push_back((i * 37 + 5) % ids);
  const auto expected = trace(**engine, tokens);
  ASSERT_TRUE(expected) << expected.error().message;
  options.chunk = 200;
  const auto small = open_smallest(options);
  ASSERT_TRUE(small) << small.error().message;
  const auto found = trace(**small, tokens);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(same_bits(*found, *expected));
}

TEST_P(SameBits, Promise2EverySplitBetweenTrunkAndExperts) {
  const auto tokens = prompt_of(GetParam());
  EngineOptions options = options_for(GetParam());
  options.all_logits = true;
  const auto whole = Engine::open(options);
  ASSERT_TRUE(whole) << whole.error().message;
  const auto expected = trace(**whole, tokens);
  ASSERT_TRUE(expected) << expected.error().message;
  for (const double share : {0.0, 0.5}) {
    options.trunk_share = share;
    const auto engine = open_smallest(options, 1 << 20);
    ASSERT_TRUE(engine) << engine.error().message;
    const auto found = trace(**engine, tokens);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_TRUE(same_bits(*found, *expected)) << share;
  }
}

TEST_P(SameBits, Promise2SecondRunWithWarmCaches) {
  const auto tokens = prompt_of(GetParam());
  EngineOptions options = options_for(GetParam());
  options.all_logits = true;
  options.memory_source = [] { return std::make_unique<PlentyOfMemory>(); };
  const auto engine = Engine::open(options);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto first = trace(**engine, tokens);
  const auto second = trace(**engine, tokens);
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(same_bits(*first, *second));
  EXPECT_TRUE((*engine)->shape().experts == 0 || (*engine)->statistics().expert_hits > 0);
}

TEST_P(SameBits, Promise2ReadsThatComeLateAndOutOfOrder) {
  const auto tokens = prompt_of(GetParam());
  EngineOptions options = options_for(GetParam());
  options.all_logits = true;
  const auto engine = Engine::open(options);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto expected = trace(**engine, tokens);
  ASSERT_TRUE(expected);
  options.chunk = 8;
  for (const std::uint64_t seed : {1, 2, 3}) {
    options.wrap_reader = [&](std::unique_ptr<io::Reader> inner) {
      io::ReadFaults faults;
      faults.max_delay = std::chrono::microseconds(300);
      faults.seed = seed;
      return io::make_fault_reader(std::move(inner), faults);
    };
    const auto delayed = open_smallest(options, 1 << 20);
    ASSERT_TRUE(delayed) << delayed.error().message;
    options.wrap_reader = nullptr;
    const auto found = trace(**delayed, tokens);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_TRUE(same_bits(*found, *expected)) << "seed " << seed;
  }
}

TEST_P(SameBits, Promise2DecodingTokenByTokenEqualsPrefill) {
  const auto tokens = prompt_of(GetParam());
  EngineOptions options = options_for(GetParam());
  options.all_logits = true;
  options.chunk = 64;
  const auto engine = Engine::open(options);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto prefilled = trace(**engine, tokens);
  ASSERT_TRUE(prefilled);
  const auto sequence = (*engine)->new_sequence();
  ASSERT_TRUE(sequence);
  const std::size_t vocabulary = (*engine)->shape().vocabulary;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto logits = (*engine)->feed(**sequence, std::span(tokens).subspan(i, 1));
    ASSERT_TRUE(logits) << logits.error().message;
    ASSERT_EQ(std::memcmp(logits->data(), prefilled->logits.data() + i * vocabulary,
                          vocabulary * sizeof(float)),
              0)
        << "position " << i;
  }
}

TEST_P(SameBits, Promise2GuessesOfTheNextExperts) {
  const auto tokens = prompt_of(GetParam());
  EngineOptions options = options_for(GetParam());
  options.all_logits = true;
  const auto engine = Engine::open(options);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto expected = trace(**engine, tokens);
  ASSERT_TRUE(expected);
  options.chunk = 1;  // guesses are made while tokens are decoded
  options.memory_source = [] { return std::make_unique<PlentyOfMemory>(); };
  std::uint64_t guessed = 0;
  for (const std::uint64_t more : {0u, 200u << 10, 1u << 20, 4u << 20}) {
    for (const std::size_t lookahead : {1, 3, 64}) {
      options.lookahead = lookahead;
      const auto guessing = open_smallest(options, more);
      ASSERT_TRUE(guessing) << guessing.error().message;
      const auto found = trace(**guessing, tokens);
      ASSERT_TRUE(found) << found.error().message;
      ASSERT_TRUE(same_bits(*found, *expected)) << "ram +" << more << " guesses " << lookahead;
      const Statistics statistics = (*guessing)->statistics();
      guessed += statistics.guessed_bytes;
      EXPECT_EQ(statistics.bytes_needed() + statistics.bytes_read_ahead() +
                    statistics.bytes_guessed_used() + statistics.bytes_guessed_wasted(),
                statistics.bytes_read());
      EXPECT_LE(statistics.guessed_bytes, statistics.bytes_of(io::Purpose::expert));
    }
  }
  EXPECT_TRUE(guessed > 0 || (*engine)->shape().experts == 0);
}

TEST_P(SameBits, Promise2CachesThatRound) {
  const auto tokens = prompt_of(GetParam());
  EngineOptions options = options_for(GetParam());
  options.all_logits = true;
  const auto engine = Engine::open(options);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto exact = trace(**engine, tokens);
  ASSERT_TRUE(exact);
  for (const auto format : {kernels::WeightFormat::bf16, kernels::WeightFormat::q8_0}) {
    options.cache_format = format;
    std::optional<Trace> expected;
    for (const std::size_t chunk : {64, 1, 7}) {
      options.chunk = chunk;
      options.threads = chunk == 7 ? 1 : 3;
      const auto rounding = chunk == 7 ? open_smallest(options) : Engine::open(options);
      ASSERT_TRUE(rounding) << rounding.error().message;
      auto found = trace(**rounding, tokens);
      ASSERT_TRUE(found) << found.error().message;
      if (!expected)
        expected = std::move(*found);
      else
        EXPECT_TRUE(same_bits(*found, *expected)) << "chunk " << chunk;
    }
    EXPECT_FALSE(same_bits(*expected, *exact)) << "nothing was rounded";
    double error = 0;
    double size = 0;
    for (std::size_t i = 0; i < exact->logits.size(); ++i) {
      error += std::pow(static_cast<double>(expected->logits[i]) - exact->logits[i], 2);
      size += std::pow(static_cast<double>(exact->logits[i]), 2);
    }
    // Where a router is nearly undecided, a rounded state picks another expert.
    const double most = (*engine)->shape().experts > 0 ? 0.1 : 0.01;
    EXPECT_LT(error, size * most) << "rounded, not wrong";
  }
}

/// Plenty and nothing in turns, a second apart; then plenty for good.
class MoodyMemory final : public MemorySource {
 public:
  MemorySigns look() override {
    ++looks_;
    const bool is_short = looks_ < 30 && looks_ % 8 < 3;
    const std::uint64_t available = is_short ? 0 : std::uint64_t{64} << 30;
    return {available, std::uint64_t{1} << 30, 0, 0};
  }
  Clock::time_point now() override { return now_ += std::chrono::seconds(1); }

 private:
  int looks_ = 0;
  Clock::time_point now_;
};

TEST_P(SameBits, Promise2MemoryPressureInMidRun) {
  const auto tokens = prompt_of(GetParam());
  EngineOptions options = options_for(GetParam());
  options.all_logits = true;
  const auto engine = Engine::open(options);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto expected = trace(**engine, tokens);
  ASSERT_TRUE(expected);
  options.memory_source = [] { return std::make_unique<MoodyMemory>(); };
  std::uint64_t guessed = 0;
  // Guesses are made where tokens go one by one: they are on their way when memory is given back.
  for (const auto& [chunk, lookahead] : {std::pair{2, 0}, {1, 3}}) {
    options.chunk = static_cast<std::size_t>(chunk);
    options.lookahead = static_cast<std::size_t>(lookahead);
    for (const std::uint64_t more : {512u << 10, 2u << 20, 1u << 30}) {
      const auto shaken = open_smallest(options, more);
      ASSERT_TRUE(shaken) << shaken.error().message;
      for (int run = 0; run < 2; ++run) {
        const auto found = trace(**shaken, tokens);
        ASSERT_TRUE(found) << found.error().message;
        EXPECT_TRUE(same_bits(*found, *expected)) << "ram +" << more << " chunk " << chunk;
      }
      if ((*engine)->shape().experts == 0) continue;  // there are no banks to shrink
      const Statistics statistics = (*shaken)->statistics();
      EXPECT_GT(statistics.most_gone_bytes, 0u) << more;
      EXPECT_LT(statistics.gone_bytes, statistics.most_gone_bytes);
      guessed += lookahead > 0 ? statistics.guessed_bytes : 0;
    }
  }
  EXPECT_TRUE(guessed > 0 || (*engine)->shape().experts == 0);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, SameBits,
                         ::testing::Values("k3-tiny", "k3-small", "kl-tiny", "llama-tiny",
                                           "gguf-plain-tiny", "gemma3-tiny", "mistral-window-tiny",
                                           "gguf-super-tiny", "qwen3moe-tiny", "gguf-mixtral-tiny",
                                           "deepseek-tiny", "deepseek-fp8-tiny", "kimi-k2-tiny",
                                           "gpt-oss-tiny", "gguf-gpt-oss-tiny",
                                           "gguf-deepseek-tiny", "gguf-qwen3moe-tiny"),
                         [](const auto& test) { return test_name(test.param); });

}  // namespace
}  // namespace sluice::engine
