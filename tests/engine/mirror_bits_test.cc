// Promise 2 with a mirror: which copy gives a byte, and which copies fail in mid-run, changes no
// bit. Promise 6: when no copy is left, the request ends and says what was lost.
#include <cstring>
#include <set>

#include "base/memory_info.h"
#include "engine/checkpoint_copy.h"
#include "engine/golden.h"
#include "io/fault_reader.h"

namespace sluice::engine {
namespace {

const std::vector<std::int32_t> kLongPrompt = {3, 141, 59, 26, 53, 58, 97, 93, 23, 84, 62, 64};

/// A checkpoint with two more copies of all its files, each as on a drive of its own.
class Mirrored {
 public:
  explicit Mirrored(const std::string& name) : name_(name), first_(name), second_(name) {}

  EngineOptions options(io::IoMode mode) const {
    EngineOptions options;
    options.model = checkpoint_folder(name_);
    options.model_folders = {first_.folder(), second_.folder()};
    options.context = 64;
    options.all_logits = true;
    options.io = mode;
    options.chunk = 5;
    options.ram = resident_memory() + (std::uint64_t{64} << 20);  // whatever a sanitizer holds
    return options;
  }
  io::ReadFaults faults() const {
    io::ReadFaults faults;
    faults.drives = {first_.folder().string(), second_.folder().string()};
    faults.max_delay = std::chrono::microseconds(100);
    return faults;
  }
  static void put_between(EngineOptions& options, io::ReadFaults faults) {
    options.wrap_reader = [faults](std::unique_ptr<io::Reader> inner) {
      return io::make_fault_reader(std::move(inner), faults);
    };
  }
  io::ReadFault loss_of_first(std::uint64_t from) const {
    return {.path_part = first_.folder().string(), .from = from};
  }

 private:
  std::string name_;
  CheckpointCopy first_;
  CheckpointCopy second_;
};

class MirrorBits : public ::testing::TestWithParam<const char*> {
 protected:
  Trace expected() const {
    EngineOptions options;
    options.all_logits = true;
    const auto engine = open_engine(GetParam(), options);
    EXPECT_TRUE(engine);
    return trace(**engine, kLongPrompt).value_or(Trace{});
  }
};

TEST_P(MirrorBits, Promise2OverEveryReader) {
  const Trace without = expected();
  const Mirrored mirrored(GetParam());
  for (const io::IoMode mode : {io::IoMode::pread, io::IoMode::uring, io::IoMode::mmap}) {
    EngineOptions options = mirrored.options(mode);
    Mirrored::put_between(options, mirrored.faults());
    const auto engine = Engine::open(options);
    ASSERT_TRUE(engine) << engine.error().message;
    for (int run = 0; run < 2; ++run) {
      const auto found = trace(**engine, kLongPrompt);
      ASSERT_TRUE(found) << found.error().message;
      EXPECT_TRUE(same_bits(*found, without)) << io::name_of(mode);
    }
    const io::ReaderStatistics reads = (*engine)->statistics().reads;
    std::set<std::filesystem::path> used;  // folders; each copy has several files
    for (const io::FileStatistics& file : reads.files) {
      if (file.bytes > 0) used.insert(std::filesystem::path(file.path).parent_path());
    }
    // The small tensors are asked for together, of drives that nothing is known about: each of
    // these is tried. Who gets what from then on hangs on how fast they are.
    EXPECT_GT(used.size(), 1u) << "only one copy was read";
  }
}

TEST_P(MirrorBits, Promise2WhenACopyFailsInMidRun) {
  const Trace without = expected();
  const Mirrored mirrored(GetParam());
  for (const io::IoMode mode : {io::IoMode::pread, io::IoMode::uring}) {
    for (const std::uint64_t from : {0, 1, 17, 60, 150}) {
      EngineOptions options = mirrored.options(mode);
      io::ReadFaults faults = mirrored.faults();
      faults.faults = {mirrored.loss_of_first(from)};
      Mirrored::put_between(options, faults);
      const auto engine = Engine::open(options);
      ASSERT_TRUE(engine) << engine.error().message;
      for (int run = 0; run < 2; ++run) {
        const auto found = trace(**engine, kLongPrompt);
        ASSERT_TRUE(found) << found.error().message;
        EXPECT_TRUE(same_bits(*found, without)) << io::name_of(mode) << " from read " << from;
      }
    }
  }
}

TEST_P(MirrorBits, Promise6WhenNoCopyIsLeftTheRequestSaysWhatWasLostAndTheNextOneWorks) {
  const Trace without = expected();
  // More reads in a row than can be under way together: some block is tried on all of its copies.
  constexpr std::uint64_t kLost = 400;
  const Mirrored mirrored(GetParam());
  EngineOptions options = mirrored.options(io::IoMode::pread);
  io::ReadFaults faults = mirrored.faults();
  faults.faults = {{.path_ending = ".safetensors", .from = 200, .count = kLost}};
  Mirrored::put_between(options, faults);
  const auto engine = Engine::open(options);
  ASSERT_TRUE(engine) << engine.error().message;
  bool lost = false;
  for (int run = 0; run < 8 && !lost; ++run) {
    const auto found = trace(**engine, kLongPrompt);
    lost = !found;
    if (found) continue;
    EXPECT_EQ(found.error().kind, ErrorKind::drive);
    EXPECT_NE(found.error().message.find("no copy of"), std::string::npos);
  }
  EXPECT_TRUE(lost);
  for (std::uint64_t run = 0; run < kLost; ++run) {  // each uses up at least one
    const auto again = trace(**engine, kLongPrompt);
    if (!again) continue;  // the faults are not all used up
    EXPECT_TRUE(same_bits(*again, without));
    return;
  }
  ADD_FAILURE() << "the engine never recovered";
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, MirrorBits, ::testing::Values("k3-tiny", "kl-tiny"),
                         [](const auto& test) {
                           return std::string(test.param).substr(0, 2) + "_tiny";
                         });

}  // namespace
}  // namespace sluice::engine
