// Promise 2 for packs: the bits of a pack are those of the checkpoint it was made from.
#include <algorithm>
#include <regex>

#include "base/memory_info.h"
#include "engine/pack_support.h"

namespace sluice::engine {
namespace {

std::uint64_t smallest_budget(EngineOptions options) {
  options.ram = 1 << 20;
  const auto refused = Engine::open(options);
  EXPECT_FALSE(refused);
  if (refused) return 0;
  std::smatch match;
  const std::string message = refused.error().message;
  EXPECT_TRUE(std::regex_search(message, match, std::regex("--ram ([0-9]+)M"))) << message;
  return match.empty() ? 0 : std::stoull(match[1]) << 20;
}

class PackSameBits : public ::testing::TestWithParam<const char*> {};

TEST_P(PackSameBits, Promise2EveryBudgetThreadCountChunkReaderAndNumberOfDrives) {
  EngineOptions options;
  options.all_logits = true;
  const auto engine = open_engine(GetParam(), options);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto ids = static_cast<int>(std::min<std::size_t>((*engine)->shape().vocabulary, 250));
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < 20; ++i) tokens.push_back((i * 37 + 5) % ids);
  const auto expected = trace(**engine, tokens);
  ASSERT_TRUE(expected) << expected.error().message;
  options.context = 256;
  for (const std::size_t drives : {1, 3}) {
    const PackFolders folders;
    const PackOptions packing = pack_options(GetParam(), folders.some(drives));
    const auto packed = pack_quietly(packing);
    ASSERT_TRUE(packed) << packed.error().message;
    ASSERT_EQ(packed->parts.size(), drives);
    options.model = packing.folders[0];
    for (const io::IoMode mode : {io::IoMode::pread, io::IoMode::uring, io::IoMode::mmap}) {
      for (const std::size_t chunk : {1, 7, 64}) {
        options.io = mode;
        options.chunk = chunk;
        options.threads = chunk == 7 ? 3 : 1;
        const std::uint64_t smallest = smallest_budget(options);
        ASSERT_GT(smallest, 0u);
        const std::uint64_t unlimited = resident_memory() + (std::uint64_t{1} << 30);
        for (const std::uint64_t ram : {smallest, smallest + (1 << 20), unlimited}) {
          options.ram = ram;
          const auto each = Engine::open(options);
          ASSERT_TRUE(each) << each.error().message;
          const auto found = trace(**each, tokens);
          ASSERT_TRUE(found) << found.error().message;
          ASSERT_EQ(found->routes, expected->routes);
          ASSERT_EQ(std::memcmp(found->logits.data(), expected->logits.data(),
                                expected->logits.size() * sizeof(float)),
                    0)
              << name_of(mode) << " chunk " << chunk << " ram " << ram << " drives " << drives;
          ASSERT_EQ(std::memcmp(found->hidden.data(), expected->hidden.data(),
                                expected->hidden.size() * sizeof(float)),
                    0);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, PackSameBits,
                         ::testing::Values("k3-tiny", "k3-small", "kl-tiny", "k3-nano",
                                           "deepseek-fp8-tiny", "kimi-k2-tiny"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace sluice::engine
