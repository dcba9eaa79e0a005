// Promise 2 for packs: the bits of a pack are those of the checkpoint it was made from.
#include <algorithm>

#include "engine/pack_support.h"
#include "engine/smallest.h"

namespace sluice::engine {
namespace {

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
        for (const std::uint64_t spare : {0u, 1u << 20, 1u << 30}) {
          const auto each = open_smallest(options, spare);
          ASSERT_TRUE(each) << each.error().message;
          const auto found = trace(**each, tokens);
          ASSERT_TRUE(found) << found.error().message;
          ASSERT_EQ(found->routes, expected->routes);
          ASSERT_EQ(std::memcmp(found->logits.data(), expected->logits.data(),
                                expected->logits.size() * sizeof(float)),
                    0)
              << name_of(mode) << " chunk " << chunk << " spare " << spare << " drives " << drives;
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
                         [](const auto& test) { return test_name(test.param); });

}  // namespace
}  // namespace sluice::engine
