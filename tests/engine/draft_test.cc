// Promise 2, the same bits: tokens that are guessed and fed behind others change nothing, whether
// they come true or not.
#include <algorithm>
#include <cstring>
#include <map>

#include "engine/generate.h"
#include "engine/golden.h"
#include "engine/smallest.h"
#include "io/passing_reader.h"

namespace sluice::engine {
namespace {

using Ids = std::vector<std::int32_t>;
using Bytes = std::vector<std::byte>;
using Logits = std::vector<float>;

constexpr std::size_t kDrafts = 5;                 // of most passes
constexpr std::size_t kMost = model::kMostDrafts;  // of some
constexpr std::size_t kSteps = 48;

Bytes saved(const model::SequenceState& sequence) {
  Bytes bytes(sequence.saved_bytes());
  sequence.save(bytes);
  return bytes;
}

bool same_bits(std::span<const float> a, const Logits& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), b.size() * sizeof(float)) == 0;
}

/// What each position of a text must compute: its logits, and the sequence behind it.
struct Expected {
  std::vector<Logits> logits;
  std::vector<Bytes> sequence;
};

class Drafts : public ::testing::TestWithParam<const char*> {
 protected:
  /// More positions than a window looks back on, and then those that are drafted.
  static constexpr std::size_t kBefore = 120;

  Ids text(std::size_t vocabulary) const {
    const auto ids = static_cast<std::int32_t>(std::min<std::size_t>(vocabulary, 500));
    Ids tokens;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(kBefore + kSteps); ++i) {
      tokens.push_back((i * 37 + i * i % 11) % ids);
    }
    return tokens;
  }

  Expected expected(Engine& engine, const Ids& tokens) const {
    Expected all;
    const auto sequence = *engine.new_sequence();
    EXPECT_TRUE(engine.feed(*sequence, std::span(tokens).first(kBefore)));
    for (std::size_t at = kBefore; at < tokens.size(); ++at) {
      const auto logits = engine.feed(*sequence, std::span(tokens).subspan(at, 1));
      EXPECT_TRUE(logits) << logits.error().message;
      if (!logits) break;
      all.logits.emplace_back(logits->begin(), logits->end());
      all.sequence.push_back(saved(*sequence));
    }
    return all;
  }

  /// Token `at`, and behind it drafts of which the first `right` go on as the text does.
  Ids with_drafts(const Ids& tokens, std::size_t at, std::size_t drafts, std::size_t right) const {
    Ids fed = {tokens[at]};
    for (std::size_t i = 1; i <= drafts; ++i) {
      fed.push_back(i <= right ? tokens[at + i] : (tokens[at] + 1 + static_cast<int>(i)) % 64);
    }
    return fed;
  }

  /// Feeds what follows the first kBefore tokens with drafts of which none, one, ... all are right.
  void check(Engine& engine, const Ids& tokens, const Expected& expected) const {
    const auto sequence = *engine.new_sequence();
    ASSERT_TRUE(engine.feed(*sequence, std::span(tokens).first(kBefore)));
    const std::size_t vocabulary = engine.shape().vocabulary;
    std::size_t step = 0;
    for (std::size_t at = kBefore; at < tokens.size(); ++step) {
      const std::size_t drafts = step % 7 == 6 ? kMost : 1 + step % kDrafts;
      const std::size_t left = tokens.size() - 1 - at;
      const std::size_t right = std::min({step / 2 % (kDrafts + 1), drafts, left});
      FeedOptions options;
      options.drafts = drafts;
      const auto rows = engine.feed(*sequence, with_drafts(tokens, at, drafts, right), options);
      ASSERT_TRUE(rows) << rows.error().message;
      ASSERT_EQ(rows->size(), (1 + drafts) * vocabulary);
      EXPECT_EQ(saved(*sequence), expected.sequence[at - kBefore]);
      // One by one, or all at once.
      const std::size_t stride = step % 2 == 0 ? 1 : std::max<std::size_t>(right, 1);
      for (std::size_t taken = 0; taken < right; taken += stride) engine.accept(*sequence, stride);
      EXPECT_EQ(saved(*sequence), expected.sequence[at + right - kBefore]) << at;
      for (std::size_t row = 0; row <= right; ++row) {
        EXPECT_TRUE(same_bits(rows->subspan(row * vocabulary, vocabulary),
                              expected.logits[at + row - kBefore]))
            << "position " << at + row;
      }
      at += 1 + right;
    }
  }

  /// All of it, with and without much memory, for a format of the caches.
  void check_all(kernels::WeightFormat format) const {
    EngineOptions options = options_for(GetParam());
    options.cache_format = format;
    const auto plain = Engine::open(options);
    ASSERT_TRUE(plain) << plain.error().message;
    const Ids tokens = text((*plain)->shape().vocabulary);
    const Expected all = expected(**plain, tokens);
    ASSERT_EQ(all.logits.size(), kSteps);
    options.drafts = kMost;
    const auto engine = Engine::open(options);
    ASSERT_TRUE(engine) << engine.error().message;
    check(**engine, tokens, all);
    options.chunk = 1;
    options.threads = 3;
    const auto small = open_smallest(options);
    ASSERT_TRUE(small) << small.error().message;
    check(**small, tokens, all);
  }
};

TEST_P(Drafts, Promise2AppendOnlyWhatIsAccepted) { check_all(kernels::WeightFormat::f32); }

TEST_P(Drafts, Promise2InCachesThatRound) { check_all(kernels::WeightFormat::q8_0); }

INSTANTIATE_TEST_SUITE_P(Checkpoints, Drafts,
                         ::testing::Values("k3-tiny", "k3-small", "kl-tiny", "llama-tiny",
                                           "gguf-plain-tiny", "gemma3-tiny", "mistral-window-tiny",
                                           "qwen2-window-tiny", "qwen3moe-tiny", "deepseek-tiny",
                                           "gpt-oss-tiny"),
                         [](const auto& test) { return test_name(test.param); });

/// An answer, and what was seen on its way.
struct Written {
  Ids ids;
  std::vector<Logits> logits;
  FinishReason reason = FinishReason::length;
  Bytes sequence;
  TokenCounts counts;
};

GenerateOptions greedy(std::size_t max_new) {
  GenerateOptions options;
  options.max_new = max_new;
  options.sampling.greedy = true;
  return options;
}

class DraftedAnswers : public ::testing::Test {
 protected:
  // "def __init__(self", which k3-nano goes on with the same words several times.
  const Ids kPrompt = {792, 772, 1355, 1015, 423};

  static EngineOptions options_with(std::size_t drafts, std::size_t context = 96) {
    EngineOptions options = options_for("k3-nano");
    options.drafts = drafts;
    options.judges_drafts = false;
    options.context = context;
    return options;
  }

  static std::unique_ptr<Engine> open(std::size_t drafts, std::size_t context = 96) {
    auto engine = Engine::open(options_with(drafts, context));
    EXPECT_TRUE(engine) << engine.error().message;
    return std::move(*engine);
  }

  Written write(Engine& engine, GenerateOptions options,
                const std::function<bool(std::int32_t id)>& more = nullptr) const {
    Written written;
    const auto sequence = *engine.new_sequence();
    options.drafts = engine.options().drafts;
    options.on_choice = [&](std::span<const float> logits, std::int32_t) {
      written.logits.emplace_back(logits.begin(), logits.end());
    };
    const auto on_token = [&](std::int32_t id) {
      written.ids.push_back(id);
      EXPECT_EQ(sequence->length(), kPrompt.size() + written.ids.size() - 1);
      return !more || more(id);
    };
    const auto made = generate(engine, *sequence, kPrompt, options, on_token, written.counts);
    EXPECT_TRUE(made) << made.error().message;
    if (made) {
      EXPECT_EQ(made->ids, written.ids);
      written.reason = made->reason;
    }
    written.sequence = saved(*sequence);
    return written;
  }

  static void expect_same(const Written& found, const Written& expected) {
    EXPECT_EQ(found.ids, expected.ids);
    EXPECT_EQ(found.reason, expected.reason);
    EXPECT_EQ(found.sequence, expected.sequence);
    ASSERT_EQ(found.logits.size(), expected.logits.size());
    for (std::size_t i = 0; i < found.logits.size(); ++i) {
      EXPECT_TRUE(same_bits(found.logits[i], expected.logits[i])) << "token " << i;
    }
    EXPECT_EQ(found.counts.generated_tokens, expected.counts.generated_tokens);
    EXPECT_EQ(found.counts.decoded_tokens, expected.counts.decoded_tokens);
  }
};

TEST_F(DraftedAnswers, Promise2AreTheSameInFewerPasses) {
  const GenerateOptions options = greedy(40);
  const Written expected = write(*open(0), options);
  EXPECT_EQ(expected.counts.drafted_tokens, 0u);
  for (const std::size_t drafts : {1, 3, 8, 32}) {
    const auto engine = open(drafts);
    const Written found = write(*engine, options);
    expect_same(found, expected);
    EXPECT_GT(found.counts.accepted_drafts, 0u);
    EXPECT_LE(found.counts.accepted_drafts, found.counts.drafted_tokens);
    EXPECT_LT(found.counts.accepted_drafts, found.counts.decoded_tokens);
  }
}

TEST_F(DraftedAnswers, Promise2AreTheSameWhereTokensAreDrawn) {
  const auto plain = open(0);
  const auto engine = open(4);
  std::uint64_t accepted = 0;
  for (const std::uint64_t seed : {1, 2, 3}) {
    GenerateOptions options;
    options.max_new = 40;
    options.sampling.temperature = 0.6f;
    options.sampling.frequency_penalty = 0.5f;
    options.sampling.seed = seed;
    const Written found = write(*engine, options);
    expect_same(found, write(*plain, options));
    accepted += found.counts.accepted_drafts;
  }
  EXPECT_GT(accepted, 0u);
}

TEST_F(DraftedAnswers, EndWhereTheyWouldWithout) {
  const auto plain = open(0, 30);
  const auto engine = open(8, 30);
  GenerateOptions options = greedy(100);
  const Written full = write(*plain, options);
  EXPECT_EQ(full.reason, FinishReason::context);
  expect_same(write(*engine, options), full);
  for (const std::size_t most : {1, 2, 17, 18, 19, 20}) {
    options.max_new = most;
    expect_same(write(*engine, options), write(*plain, options));
  }
  // At each token, so that the end is also among drafts that came true.
  for (std::size_t last = 1; last < full.ids.size(); ++last) {
    std::size_t count = 0;
    const auto more = [&](std::int32_t) { return ++count < last; };
    const Written expected = write(*plain, greedy(100), more);
    count = 0;
    expect_same(write(*engine, greedy(100), more), expected);
    EXPECT_EQ(expected.reason, FinishReason::stopped);
  }
  options.max_new = 100;
  options.stop_ids = {837};  // comes in what is repeated
  const Written ended = write(*plain, options);
  EXPECT_EQ(ended.reason, FinishReason::end_of_turn);
  expect_same(write(*engine, options), ended);
}

TEST_F(DraftedAnswers, GoOnFromWhatIsKnown) {
  const GenerateOptions options = greedy(40);
  const Written expected = write(*open(0), options);
  const auto engine = open(4);
  for (const std::size_t known : {std::size_t{1}, std::size_t{20}, expected.ids.size() - 1}) {
    const auto sequence = *engine->new_sequence();
    Ids held = kPrompt;
    held.insert(held.end(), expected.ids.begin(),
                expected.ids.begin() + static_cast<std::ptrdiff_t>(known - 1));
    ASSERT_TRUE(engine->feed(*sequence, held));
    GenerateOptions rest = options;
    rest.drafts = 4;
    rest.before = kPrompt;
    rest.known = std::span(expected.ids).first(known);
    TokenCounts counts;
    const auto made = go_on(
        *engine, *sequence, {}, rest, [](std::int32_t) { return true; }, counts);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->ids, expected.ids);
    EXPECT_EQ(saved(*sequence), expected.sequence);
  }
}

/// Fails the reads of experts for as long as it is told to.
class FailingReader final : public io::PassingReader {
 public:
  FailingReader(std::unique_ptr<io::Reader> behind, const bool& fails, std::size_t& failed)
      : PassingReader(std::move(behind)), fails_(fails), failed_(failed) {}

  void submit(std::span<const io::ReadRequest> requests) override {
    for (const io::ReadRequest& request : requests) {
      if (fails_ && request.purpose == io::Purpose::expert) {
        ++failed_;
        request.sink->complete(
            {request.tag, tl::unexpected(Error{ErrorKind::drive, "a bad block"})});
      } else {
        inner().submit({&request, 1});
      }
    }
  }

 private:
  const bool& fails_;
  std::size_t& failed_;
};

TEST_F(DraftedAnswers, EndInNoErrorOfADraft) {
  const Written expected = write(*open(0), greedy(40));
  // Of the passes with drafts every other fails.
  bool is_writing = false;
  bool fails = false;
  std::size_t failed = 0;
  std::size_t drafted = 0;
  EngineOptions options = options_with(8);
  options.wrap_reader = [&](std::unique_ptr<io::Reader> inner) {
    return std::make_unique<FailingReader>(std::move(inner), fails, failed);
  };
  const auto engine = open_smallest(options);
  ASSERT_TRUE(engine) << engine.error().message;
  GenerateOptions generate = greedy(40);
  generate.feed.on_progress = [&](const Progress& now) {
    const bool has_drafts = is_writing && now.chunk_tokens > 1;
    if (has_drafts && now.layer == 0) ++drafted;
    fails = has_drafts && drafted % 2 == 1 && now.layer >= 5;
  };
  const auto more = [&](std::int32_t) { return is_writing = true; };
  const Written found = write(**engine, generate, more);
  expect_same(found, expected);
  EXPECT_GT(failed, 0u);
  EXPECT_GT(found.counts.accepted_drafts, 0u);
  // A pass that fails without drafts ends the answer, and the next one is as ever.
  is_writing = false;
  generate.feed.on_progress = [&](const Progress& now) { fails = now.layer >= 5; };
  {
    TokenCounts counts;
    const auto sequence = *(*engine)->new_sequence();
    EXPECT_FALSE(sluice::engine::generate(**engine, *sequence, kPrompt, generate, more, counts));
    EXPECT_EQ(sequence->length(), 0u);
  }
  fails = false;
  generate.feed.on_progress = nullptr;
  expect_same(write(**engine, generate), expected);
}

TEST_F(DraftedAnswers, EndWhereTheyAreCancelled) {
  const auto engine = open(8);
  for (const bool keep : {true, false}) {
    Cancellation cancellation;
    GenerateOptions options = greedy(40);
    options.drafts = 8;
    options.keep_sequence = keep;
    options.feed.cancellation = &cancellation;
    std::size_t written = 0;
    options.feed.on_progress = [&](const Progress& now) {
      if (written > 25 && now.chunk_tokens > 1 && now.layer == 4) cancellation.request();
    };
    const auto sequence = *engine->new_sequence();
    TokenCounts counts;
    const auto made = generate(
        *engine, *sequence, kPrompt, options, [&](std::int32_t) { return ++written > 0; }, counts);
    if (keep) {
      ASSERT_TRUE(made) << made.error().message;
      EXPECT_EQ(made->reason, FinishReason::interrupted);
      EXPECT_EQ(sequence->length(), kPrompt.size() + made->ids.size() - 1);
    } else {
      ASSERT_FALSE(made);
      EXPECT_EQ(made.error().kind, ErrorKind::interrupted);
      EXPECT_EQ(sequence->length(), 0u);
    }
  }
}

TEST_F(DraftedAnswers, HaveTheirRoomInTheBudget) {
  EngineOptions options = options_with(0);
  const std::uint64_t without = smallest_budget(options);
  options.drafts = kMost;
  EXPECT_GT(smallest_budget(options), without);
  const auto small = open_smallest(options);
  ASSERT_TRUE(small) << small.error().message;
  expect_same(write(**small, greedy(24)), write(*open(0), greedy(24)));
  const std::uint64_t least = smallest_budget(options);
  options.ram = least - (std::uint64_t{2} << 20);
  EXPECT_FALSE(Engine::open(options)) << "the one that is named is the smallest";
  options.ram = std::nullopt;
  const auto with = Engine::open(options);
  options.drafts = 0;
  const auto plain = Engine::open(options);
  ASSERT_TRUE(with && plain);
  EXPECT_GE((*with)->chunk(), (*plain)->chunk()) << "prompts are read as fast as without";
  options.drafts = kMost + 1;
  const auto refused = Engine::open(options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
}

}  // namespace
}  // namespace sluice::engine
