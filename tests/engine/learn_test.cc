// The record of used experts: never needed, never trusted when it is damaged, changes no bit.
#include "engine/learn.h"

#include <sys/stat.h>

#include "base/memory_info.h"
#include "engine/golden.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;

/// An empty folder for the time of a test.
class CacheFolder {
 public:
  CacheFolder() {
    std::string name = (fs::temp_directory_path() / "sluice-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~CacheFolder() {
    fs::permissions(path_, fs::perms::owner_all);
    fs::remove_all(path_);
  }
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;
  const fs::path& path() const { return path_; }
  std::vector<fs::path> files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(path_)) files.push_back(entry.path());
    return files;
  }

 private:
  fs::path path_;
};

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write(const fs::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

weights::Blocks blocks_like(const weights::ExpertUse& use) {
  weights::Blocks blocks;
  for (const auto& layer : use) blocks.expert_layers.emplace_back().experts.resize(layer.size());
  return blocks;
}

const weights::ExpertUse kUse = {{}, {0.0f, 1.5f, 3.0f}, {2.0f, 0.25f, 0.0f, 8.0f}};

TEST(History, ComesBackAndCountsHalf) {
  const CacheFolder folder;
  const fs::path file = history_file(folder.path() / "made", 42);
  EXPECT_TRUE(load_history(file, 42, blocks_like(kUse))->empty());
  ASSERT_TRUE(save_history(file, 42, kUse));
  ASSERT_TRUE(save_history(file, 42, kUse)) << "replaces what is there";
  const auto use = load_history(file, 42, blocks_like(kUse));
  ASSERT_TRUE(use) << use.error().message;
  EXPECT_EQ((*use)[1], (std::vector<float>{0.0f, 0.75f, 1.5f}));
  EXPECT_EQ((*use)[2], (std::vector<float>{1.0f, 0.125f, 0.0f, 4.0f}));
}

TEST(History, Promise6IsRefusedWhateverIsWrongWithIt) {
  const CacheFolder folder;
  const fs::path file = history_file(folder.path(), 42);
  ASSERT_TRUE(save_history(file, 42, kUse));
  const std::string whole = bytes_of(file);
  const weights::Blocks blocks = blocks_like(kUse);
  EXPECT_FALSE(load_history(file, 43, blocks)) << "another model";
  EXPECT_FALSE(load_history(file, 42, blocks_like({{1.0f}, {2.0f}}))) << "another shape";
  EXPECT_FALSE(load_history(file, 42, blocks_like({{1, 1, 1}, {1, 1, 1, 1}, {}})));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write(file, whole.substr(0, length));
    EXPECT_FALSE(load_history(file, 42, blocks)) << length;
  }
  write(file, whole + "x");
  EXPECT_FALSE(load_history(file, 42, blocks));
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    write(file, flipped);
    const auto refused = load_history(file, 42, blocks);
    ASSERT_FALSE(refused) << bit;
    EXPECT_EQ(refused.error().kind, ErrorKind::model_files);
    EXPECT_NE(refused.error().message.find(file.string()), std::string::npos);
  }
  // The checksum is right, the numbers are not.
  for (const float bad :
       {-1.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    ASSERT_TRUE(save_history(file, 42, {{}, {bad, 0, 0}, {0, 0, 0, 0}}));
    EXPECT_FALSE(load_history(file, 42, blocks));
  }
}

TEST(History, APipeInItsPlaceIsNotWaitedFor) {
  const CacheFolder folder;
  const fs::path file = history_file(folder.path(), 42);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_FALSE(load_history(file, 42, blocks_like(kUse)));
  EXPECT_TRUE(save_history(file, 42, kUse));
  EXPECT_TRUE(load_history(file, 42, blocks_like(kUse))) << "the pipe is replaced";
}

TEST(History, FingerprintTellsModelsApart) {
  const std::uint64_t none = fingerprint_of("/no/such/folder", {});
  EXPECT_EQ(none, 0u);
  const fs::path tiny = checkpoint_folder("k3-tiny");
  const std::uint64_t one = fingerprint_of(tiny, {{tiny / "config.json", {}, 100}});
  EXPECT_NE(one, 0u);
  EXPECT_EQ(one, fingerprint_of(tiny, {{tiny / "config.json", {}, 100}}));
  EXPECT_NE(one, fingerprint_of(tiny, {{tiny / "config.json", {}, 101}}));
  EXPECT_NE(one, fingerprint_of(checkpoint_folder("k3-small"), {{tiny / "config.json", {}, 100}}));
}

std::vector<float> logits_with(const fs::path& history) {
  EngineOptions options;
  options.all_logits = true;
  options.history = history;
  options.ram = resident_memory() + (std::uint64_t{64} << 20);  // whatever a sanitizer holds
  const auto engine = open_engine("k3-tiny", options);
  EXPECT_TRUE(engine) << engine.error().message;
  const auto result = trace(**engine, {3, 141, 59, 26, 53, 58, 97, 93});
  EXPECT_TRUE(result);
  return result->logits;
}

TEST(History, Promise2IsKeptByTheEngineAndChangesNoBit) {
  const CacheFolder folder;
  const std::vector<float> expected = logits_with({});
  EXPECT_TRUE(folder.files().empty());
  EXPECT_EQ(logits_with(folder.path()), expected);
  ASSERT_EQ(folder.files().size(), 1u);
  const fs::path file = folder.files()[0];
  EXPECT_EQ(logits_with(folder.path()), expected) << "with a history";
  const std::string whole = bytes_of(file);
  write(file, whole.substr(0, whole.size() / 2));
  EXPECT_EQ(logits_with(folder.path()), expected) << "with a damaged one";
  EXPECT_EQ(bytes_of(file).size(), whole.size()) << "it is replaced";
  ASSERT_EQ(folder.files().size(), 1u) << "and nothing is left over";
}

TEST(History, AFolderThatCannotBeWrittenIsNoError) {
  EXPECT_EQ(logits_with("/proc/no/such/place"), logits_with({}));
}

}  // namespace
}  // namespace sluice::engine
