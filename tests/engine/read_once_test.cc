// No byte is read twice for one token: what was guessed rightly is not asked for again, and guesses
// go out together, so that a drive has several to work at.
#include <map>
#include <mutex>
#include <utility>

#include "engine/golden.h"
#include "engine/smallest.h"
#include "io/passing_reader.h"

namespace sluice::engine {
namespace {

/// What was asked of a reader since the last pass began.
struct Asked {
  std::mutex mutex;
  std::map<std::pair<io::FileId, std::uint64_t>, int> experts;  // times, by place
  std::size_t most_guesses = 0;                                 // in one submit()
  std::uint64_t bytes = 0;                                      // of experts

  void note(std::span<const io::ReadRequest> requests) {
    const std::scoped_lock lock(mutex);
    std::size_t guesses = 0;
    for (const io::ReadRequest& request : requests) {
      if (request.purpose != io::Purpose::expert) continue;
      ++experts[{request.extent.file, request.extent.offset}];
      bytes += request.extent.length;
      guesses += request.priority == io::Priority::guess ? 1 : 0;
    }
    most_guesses = std::max(most_guesses, guesses);
  }
};

/// Passes everything on and notes it.
class NotingReader final : public io::PassingReader {
 public:
  NotingReader(std::unique_ptr<io::Reader> behind, Asked& asked)
      : PassingReader(std::move(behind)), asked_(asked) {}

  void submit(std::span<const io::ReadRequest> requests) override {
    asked_.note(requests);
    inner().submit(requests);
  }

 private:
  Asked& asked_;
};

class ReadOnce : public ::testing::TestWithParam<const char*> {};

TEST_P(ReadOnce, NoExpertIsAskedForTwiceInAPass) {
  std::size_t most_guesses = 0;
  for (const std::uint64_t spare : {0u, 256u << 10, 2u << 20}) {
    for (const std::size_t lookahead : {0, 3, 8}) {
      SCOPED_TRACE(fmt::format("ram +{} guesses {}", spare, lookahead));
      Asked asked;
      EngineOptions options = options_for(GetParam());
      options.lookahead = lookahead;
      options.memory_source = [] { return std::make_unique<PlentyOfMemory>(); };
      options.wrap_reader = [&](std::unique_ptr<io::Reader> inner) {
        return std::make_unique<NotingReader>(std::move(inner), asked);
      };
      const auto engine = open_smallest(options, spare);
      ASSERT_TRUE(engine) << engine.error().message;
      const auto sequence = (*engine)->new_sequence();
      ASSERT_TRUE(sequence);
      for (std::int32_t token = 0; token < 24; ++token) {
        asked.experts.clear();
        ASSERT_TRUE((*engine)->feed(**sequence, std::vector<std::int32_t>{(token * 37 + 5) % 80}));
        for (const auto& [place, times] : asked.experts) {
          EXPECT_EQ(times, 1) << "file " << place.first << " offset " << place.second;
        }
      }
      EXPECT_GT(asked.bytes, 0u);
      EXPECT_LE((*engine)->statistics().bytes_of(io::Purpose::expert), asked.bytes)
          << "no more is delivered than was asked for";
      if (lookahead == 0) {
        EXPECT_EQ(asked.most_guesses, 0u);
      }
      most_guesses = std::max(most_guesses, asked.most_guesses);
    }
  }
  EXPECT_GE(most_guesses, 2u) << "one guess at a time leaves a drive idle";
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, ReadOnce,
                         ::testing::Values("k3-tiny", "kl-tiny", "deepseek-tiny", "gpt-oss-tiny",
                                           "qwen3moe-tiny"),
                         [](const auto& test) { return test_name(test.param); });

}  // namespace
}  // namespace sluice::engine
