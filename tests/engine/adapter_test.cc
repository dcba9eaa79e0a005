// Adapters: what they compute, that the bits are the same everywhere, and what they cost.
#include <algorithm>
#include <memory>

#include "base/size.h"
#include "engine/adapter_support.h"
#include "engine/smallest.h"

namespace sluice::engine {
namespace {

constexpr float kClose = 1e-3f;

const std::vector<std::string> kProjections = {
    "q_proj",  "k_proj",   "v_proj",   "o_proj",   "f_a_proj",           "f_b_proj",
    "b_proj",  "g_proj",   "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "gate_proj",
    "up_proj", "down_proj"};

/// Of a checkpoint: those of all projections that there are.
std::vector<std::string> targets_of(const std::filesystem::path& model) {
  std::vector<std::string> targets;
  for (const std::string& each : kProjections) {
    if (!modules_of(model, {each}).empty()) targets.push_back(each);
  }
  return targets;
}

std::vector<std::int32_t> some_tokens(std::size_t count, std::int32_t vocabulary) {
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<std::int32_t>(i * 37 + 5) % vocabulary);
  }
  return tokens;
}

EngineOptions with_adapters(const std::string& model, std::vector<AdapterSource> adapters) {
  EngineOptions options = options_for(model);
  options.all_logits = true;
  options.threads = 2;
  options.adapters = std::move(adapters);
  return options;
}

std::string named(const ::testing::TestParamInfo<const char*>& each) {
  std::string name = each.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

class PeftAdapter : public ::testing::TestWithParam<const char*> {};

TEST_P(PeftAdapter, ComputesWhatTheMergedCheckpointDoes) {
  const std::filesystem::path folder = golden_folder("lora") / GetParam();
  const nlohmann::json golden = read_golden(std::string("lora/") + GetParam());
  const auto tokens = golden["tokens"].get<std::vector<std::int32_t>>();
  const auto engine = Engine::open(with_adapters(golden["base"], {{"x", folder}}));
  ASSERT_TRUE(engine) << engine.error().message;
  const std::vector<float> expected = read_floats(folder / "logits.bin");
  const std::vector<float> base = logits_with(**engine, 0, tokens);
  EXPECT_LT(farthest(logits_with(**engine, 1, tokens), expected), kClose);
  EXPECT_GT(farthest(base, expected), 0.1f) << "the adapter changes something";
  EXPECT_EQ(logits_with(**engine, 0, tokens), base) << "and nothing of the model";
}

INSTANTIATE_TEST_SUITE_P(All, PeftAdapter,
                         ::testing::Values("llama-plain", "llama-patterns", "mistral-mlp",
                                           "qwen2-attention", "qwen3-everything",
                                           "qwen3moe-attention"),
                         named);

class AdapterOn : public ::testing::TestWithParam<const char*> {};

/// Every projection that the architecture has.
TEST_P(AdapterOn, ComputesWhatTheMergedCheckpointDoes) {
  const auto model = checkpoint_folder(GetParam());
  const TestAdapter adapter(model, targets_of(model), 1);
  ASSERT_GE(adapter.modules().size(), 8u);
  const TemporaryFolder folder;
  merge(model, adapter, folder.path());
  EngineOptions options = with_adapters(GetParam(), {});
  options.model = folder.path();
  const auto merged = Engine::open(options);
  ASSERT_TRUE(merged) << merged.error().message;
  const auto engine = Engine::open(with_adapters(GetParam(), {{"x", adapter.folder()}}));
  ASSERT_TRUE(engine) << engine.error().message;
  const auto tokens = some_tokens(40, 80);
  const std::vector<float> expected = logits_with(**merged, 0, tokens);
  EXPECT_LT(farthest(logits_with(**engine, 1, tokens), expected), kClose);
  EXPECT_GT(farthest(logits_with(**engine, 0, tokens), expected), 0.1f);
}

INSTANTIATE_TEST_SUITE_P(All, AdapterOn,
                         ::testing::Values("k3-tiny", "kl-tiny", "deepseek-tiny", "gemma3-tiny",
                                           "gpt-oss-tiny", "mixtral-tiny", "kimi-k2-tiny"),
                         named);

TEST(Adapter, TheModelAloneHasTheBitsThatItHasWithoutAdapters) {
  const auto model = checkpoint_folder("k3-tiny");
  const TestAdapter adapter(model, targets_of(model), 1);
  const auto tokens = some_tokens(40, 500);
  const auto alone = Engine::open(with_adapters("k3-tiny", {}));
  const auto beside = Engine::open(with_adapters("k3-tiny", {{"x", adapter.folder()}}));
  ASSERT_TRUE(alone && beside);
  const std::vector<float> expected = logits_with(**alone, 0, tokens);
  logits_with(**beside, 1, tokens);
  EXPECT_EQ(logits_with(**beside, 0, tokens), expected);
}

class AdapterBits : public ::testing::TestWithParam<const char*> {};

TEST_P(AdapterBits, Promise2EveryBudgetThreadCountAndChunk) {
  const auto model = checkpoint_folder(GetParam());
  const TestAdapter adapter(model, targets_of(model), 2);
  EngineOptions options = with_adapters(GetParam(), {{"x", adapter.folder()}});
  const auto tokens = some_tokens(45, 80);
  const auto engine = Engine::open(options);
  ASSERT_TRUE(engine) << engine.error().message;
  const std::vector<float> expected = logits_with(**engine, 1, tokens);
  for (const std::size_t chunk : {1, 7, 64}) {
    for (const int threads : {1, 3}) {
      options.chunk = chunk;
      options.threads = threads;
      for (const std::uint64_t spare : {0u, 1u << 30}) {
        const auto each = open_smallest(options, spare);
        ASSERT_TRUE(each) << each.error().message;
        ASSERT_EQ(logits_with(**each, 1, tokens), expected)
            << "chunk " << chunk << " threads " << threads << " spare " << spare;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AdapterBits, ::testing::Values("llama-tiny", "k3-tiny"), named);

/// Twenty adapters of one size.
class TwentyAdapters : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kCount = 20;

  void SetUp() override {
    const auto model = checkpoint_folder("llama-tiny");
    for (std::uint32_t i = 0; i < kCount; ++i) {
      adapters_.push_back(std::make_unique<TestAdapter>(
          model, std::vector<std::string>{"q_proj", "v_proj", "down_proj"}, 10 + i));
      sources_.push_back({"adapter-" + std::to_string(i), adapters_.back()->folder()});
    }
  }

  std::uint64_t one_adapter() {
    const auto engine = Engine::open(with_adapters("llama-tiny", {sources_[0]}));
    EXPECT_TRUE(engine) << engine.error().message;
    return *(*engine)->options().adapter_ram;
  }

  static std::uint64_t held(const Engine& engine) {
    for (const auto& [tenant, bytes] : engine.statistics().memory) {
      if (tenant == "adapters") return bytes;
    }
    ADD_FAILURE() << "no such tenant";
    return 0;
  }

  std::vector<std::unique_ptr<TestAdapter>> adapters_;
  std::vector<AdapterSource> sources_;
  const std::vector<std::int32_t> tokens_ = some_tokens(9, 80);
};

TEST_F(TwentyAdapters, InABoundedPoolCostOneReadEachTime) {
  const std::uint64_t each = one_adapter();
  std::vector<std::vector<float>> expected;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const auto alone = Engine::open(with_adapters("llama-tiny", {sources_[i]}));
    ASSERT_TRUE(alone);
    expected.push_back(logits_with(**alone, 1, tokens_));
  }
  EngineOptions options = with_adapters("llama-tiny", sources_);
  options.adapter_ram = 3 * each;
  const auto engine = Engine::open(options);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto reads = [&](std::uint32_t number) {
    const auto before = (*engine)->statistics();
    EXPECT_EQ(logits_with(**engine, number, tokens_), expected[number - 1]) << number;
    const auto after = (*engine)->statistics();
    return after.adapters.loads - before.adapters.loads;
  };
  for (int round = 0; round < 2; ++round) {
    for (std::uint32_t number = 1; number <= kCount; ++number) EXPECT_EQ(reads(number), 1u);
  }
  const auto statistics = (*engine)->statistics();
  EXPECT_EQ(statistics.adapters.loads, 2 * kCount);
  EXPECT_EQ(statistics.adapters.evictions, 2 * kCount - 3);
  EXPECT_EQ(held(**engine), 3 * each) << "the most that was charged";
  EXPECT_EQ(reads(kCount), 0u) << "it is there";
  EXPECT_EQ(reads(kCount - 2), 0u);
  EXPECT_EQ(reads(1), 1u);
  EXPECT_EQ(reads(kCount - 1), 1u) << "this one was used longest ago";
  EXPECT_EQ(reads(kCount - 2), 0u);
}

TEST_F(TwentyAdapters, AreReadFromTheDriveOnceEach) {
  EngineOptions options = with_adapters("llama-tiny", sources_);
  options.adapter_ram = 0;
  const auto refused = Engine::open(options);
  ASSERT_FALSE(refused) << "less than one adapter is no pool";
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  options.adapter_ram = one_adapter();
  options.io = io::IoMode::pread;
  const auto engine = Engine::open(options);
  ASSERT_TRUE(engine) << engine.error().message;
  for (std::uint32_t number = 1; number <= kCount; ++number) {
    logits_with(**engine, number, tokens_);
  }
  const auto statistics = (*engine)->statistics();
  std::size_t files = 0;
  for (const io::FileStatistics& file : statistics.reads.files) {
    if (!file.path.ends_with("adapter_model.safetensors")) continue;
    ++files;
    EXPECT_EQ(file.reads, 1u) << file.path;
  }
  EXPECT_EQ(files, kCount);
  EXPECT_EQ(held(**engine), *options.adapter_ram);
}

TEST_F(TwentyAdapters, AreInTheSmallestBudgetThatIsNamed) {
  EngineOptions options = with_adapters("llama-tiny", sources_);
  options.adapter_ram = 20 * one_adapter();
  options.ram = 1 << 20;
  const auto refused = Engine::open(options);
  ASSERT_FALSE(refused);
  // A part of the sum that is named, whatever the rest of the process takes at this moment.
  const std::string part = fmt::format(", adapters {}, ", format_size(*options.adapter_ram));
  EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  const auto engine = open_smallest(options);
  ASSERT_TRUE(engine) << engine.error().message;
  for (std::uint32_t number = 1; number <= kCount; ++number) {
    logits_with(**engine, number, tokens_);
  }
  EXPECT_EQ((*engine)->statistics().adapters.evictions, 0u);
}

TEST_F(TwentyAdapters, KeepASequenceWhileOthersComeAndGo) {
  EngineOptions options = with_adapters("llama-tiny", sources_);
  options.adapter_ram = one_adapter();
  const auto engine = Engine::open(options);
  ASSERT_TRUE(engine) << engine.error().message;
  const std::vector<float> expected = logits_with(**engine, 1, tokens_);
  const auto sequence = (*engine)->new_sequence(1);
  ASSERT_TRUE(sequence);
  std::vector<float> last;
  for (const std::int32_t token : tokens_) {
    const auto fed = (*engine)->feed(**sequence, {&token, 1});
    ASSERT_TRUE(fed) << fed.error().message;
    last.assign(fed->begin(), fed->end());
    logits_with(**engine, 2, {1, 2});
  }
  EXPECT_TRUE(std::equal(last.begin(), last.end(),
                         expected.end() - static_cast<std::ptrdiff_t>(last.size())));
}

}  // namespace
}  // namespace sluice::engine
