// Promise 6, nothing silent: a GGUF file that lacks a key which its model needs is refused by the
// key's name at open, and one that has a key which nobody understands by that one's.
#include <cmath>
#include <cstring>
#include <set>

#include "engine/checkpoint_copy.h"
#include "store/metadata.h"

namespace sluice::engine {
namespace {

/// What each model of the architecture needs, without the architecture's name.
const std::set<std::string> kAll = {"embedding_length",
                                    "block_count",
                                    "feed_forward_length",
                                    "context_length",
                                    "attention.layer_norm_rms_epsilon",
                                    "attention.head_count"};

struct Family {
  const char* checkpoint;
  std::set<std::string> needed;  // beside kAll

  friend void PrintTo(const Family& family, std::ostream* out) { *out << family.checkpoint; }
};

const Family kFamilies[] = {
    {"gguf-blocks-tiny", {}},
    {"gguf-plain-tiny", {}},
    {"gguf-mixtral-tiny", {"expert_count", "expert_used_count"}},
    {"gguf-qwen3moe-tiny", {"expert_count", "expert_used_count"}},
    {"gguf-gpt-oss-tiny", {"expert_count", "expert_used_count", "attention.sliding_window"}},
    {"gguf-gemma3-tiny", {"attention.sliding_window"}},
    {"gguf-deepseek-tiny",
     {"expert_count", "expert_used_count", "expert_feed_forward_length", "expert_gating_func",
      "attention.kv_lora_rank", "attention.key_length", "attention.value_length",
      "rope.dimension_count"}},
};

class GgufKeys : public ::testing::TestWithParam<Family> {
 protected:
  GgufKeys() : copy_(GetParam().checkpoint) {
    const auto checkpoint = store::Checkpoint::open(copy_.folder());
    EXPECT_TRUE(checkpoint) << checkpoint.error().message;
    path_ = checkpoint->files()[0].path;
    for (std::size_t i = 0; i < checkpoint->metadata()->size(); ++i) {
      keys_.emplace_back(checkpoint->metadata()->key(i));
    }
    architecture_ = checkpoint->metadata()->text("general.architecture").value();
    std::ifstream in(path_, std::ios::binary);
    file_.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }

  /// What is said of the file whose key has one letter changed: at its beginning, so that it is
  /// none of the architecture's, or at its end. Empty: it is opened, and computes.
  std::string said_without(const std::string& key, bool at_end) {
    std::uint64_t length = key.size();
    std::string entry(sizeof(length), '\0');
    std::memcpy(entry.data(), &length, sizeof(length));
    const std::size_t at = file_.find(entry + key);
    EXPECT_NE(at, std::string::npos) << key;
    std::string changed = file_;
    changed[at + sizeof(length) + (at_end ? key.size() - 1 : 0)] = '~';
    std::ofstream(path_, std::ios::binary) << changed;
    const auto engine = copy_.open();
    if (!engine) {
      EXPECT_EQ(engine.error().kind, ErrorKind::model_files) << engine.error().message;
      return engine.error().message;
    }
    const auto found = trace(**engine, {3, 5, 7});
    EXPECT_TRUE(found) << key << ": found late: " << found.error().message;
    if (!found) return {};
    for (const float logit : found->logits) EXPECT_TRUE(std::isfinite(logit)) << key;
    return {};
  }

  CheckpointCopy copy_;
  std::filesystem::path path_;
  std::string file_;
  std::string architecture_;
  std::vector<std::string> keys_;
};

TEST_P(GgufKeys, Promise6OneThatIsNeededAndMissingIsNamedAtOpen) {
  std::set<std::string> needed = {"general.architecture"};
  for (const auto* keys : {&kAll, &GetParam().needed}) {
    for (const std::string& key : *keys) needed.insert(architecture_ + "." + key);
  }
  for (const std::string& key : keys_) {
    const std::string message = said_without(key, false);
    EXPECT_EQ(message.find("config.json"), std::string::npos) << "there is none: " << message;
    if (needed.erase(key) > 0) {
      EXPECT_NE(message.find(key), std::string::npos) << key << ": '" << message << "'";
      EXPECT_NE(message.find(path_.filename().string()), std::string::npos) << message;
    } else if (!message.empty()) {
      // The other keys have a meaning when they are absent; where that contradicts the tensors, or
      // the names of the parts, these are named.
      EXPECT_TRUE(message.find("tensor blk.") != std::string::npos ||
                  message.find(path_.filename().string()) != std::string::npos)
          << message;
    }
  }
  EXPECT_TRUE(needed.empty()) << *needed.begin() << " is not in the file";
}

TEST_P(GgufKeys, Promise6OneThatIsNotUnderstoodIsNamed) {
  int renamed = 0;
  for (const std::string& key : keys_) {
    if (!key.starts_with(architecture_ + ".")) continue;
    const std::string message = said_without(key, true);
    const std::string now = key.substr(0, key.size() - 1) + "~";
    EXPECT_NE(message.find(now), std::string::npos) << key << ": '" << message << "'";
    ++renamed;
  }
  EXPECT_GT(renamed, 8);
}

INSTANTIATE_TEST_SUITE_P(Families, GgufKeys, ::testing::ValuesIn(kFamilies),
                         [](const auto& test) { return test_name(test.param.checkpoint); });

}  // namespace
}  // namespace sluice::engine
