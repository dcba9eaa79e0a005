// Promise 6, no input brings the process down: GGUF files with one thing changed, of which the
// header's structure is known, are refused or computed, through a whole pass.
#include <cmath>
#include <cstring>
#include <random>

#include "engine/checkpoint_copy.h"

namespace sluice::engine {
namespace {

/// A place in a GGUF file and what stands there.
struct Field {
  enum class Kind { number, real, text, size, type, offset, data } kind;
  std::size_t at;
  std::size_t bytes;
};

/// Finds the fields of a well-formed file.
class Walker {
 public:
  explicit Walker(const std::string& file) : file_(file) {
    at_ = 4;
    add(Field::Kind::number, 4);  // the version, then how many tensors and values there are
    for (const std::size_t at : {8u, 16u}) fields.push_back({Field::Kind::number, at, 8});
    const auto tensors = take<std::uint64_t>();
    const auto values = take<std::uint64_t>();
    for (std::uint64_t i = 0; i < values; ++i) {
      text();
      value(take<std::uint32_t>());
    }
    for (std::uint64_t i = 0; i < tensors; ++i) {
      text();
      const auto dimensions = take<std::uint32_t>();
      for (std::uint32_t d = 0; d < dimensions; ++d) add(Field::Kind::size, 8);
      add(Field::Kind::type, 4);
      add(Field::Kind::offset, 8);
    }
    // Several, so that the data is hit as often as a part of the header.
    for (std::size_t i = 0; i < 16; ++i) {
      fields.push_back({Field::Kind::data, at_, file.size() - at_});
    }
  }

  std::vector<Field> fields;

 private:
  template <class T>
  T take() {
    T number{};
    std::memcpy(&number, file_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return number;
  }
  void add(Field::Kind kind, std::size_t bytes) {
    fields.push_back({kind, at_, bytes});
    at_ += bytes;
  }
  void text() {
    const auto length = take<std::uint64_t>();
    add(Field::Kind::text, length);
  }
  void value(std::uint32_t type) {
    constexpr std::size_t kBytes[13] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type == 8) return text();
    if (type == 9) {
      const auto of = take<std::uint32_t>();
      const auto count = take<std::uint64_t>();
      for (std::uint64_t i = 0; i < count; ++i) value(of);
      return;
    }
    add(type == 6 || type == 12 ? Field::Kind::real : Field::Kind::number, kBytes[type]);
  }

  const std::string& file_;
  std::size_t at_ = 0;
};

class Changes {
 public:
  explicit Changes(std::uint32_t seed) : random_(seed) {}

  /// The file with one field changed into something that is near it, or known to be awkward.
  std::string changed(std::string file, const std::vector<Field>& fields) {
    const Field& field = fields[below(fields.size())];
    char* const at = file.data() + field.at;
    switch (field.kind) {
      case Field::Kind::text:
        if (field.bytes > 0) at[below(field.bytes)] ^= static_cast<char>(1 << below(7));
        break;
      case Field::Kind::real:
        put(at, field.bytes, real());
        break;
      case Field::Kind::type:
        put(at, field.bytes, static_cast<std::uint32_t>(below(42)));
        break;
      case Field::Kind::data:
        for (int i = 0; i < 64; ++i) at[below(field.bytes)] = static_cast<char>(below(256));
        break;
      default:
        put(at, field.bytes, whole(at, field.bytes));
    }
    if (below(24) == 0) file.resize(below(file.size()));
    return file;
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }

  template <class T>
  static void put(char* at, std::size_t bytes, T number) {
    std::memcpy(at, &number, std::min(bytes, sizeof(number)));
  }
  float real() {
    constexpr float kReals[] = {NAN, INFINITY, -1, 0, 1e-30f, 1e30f, 1, 3, 100};
    return kReals[below(std::size(kReals))];
  }
  std::uint64_t whole(const char* at, std::size_t bytes) {
    std::uint64_t now = 0;
    std::memcpy(&now, at, std::min<std::size_t>(bytes, sizeof(now)));
    const std::uint64_t wholes[] = {0,       1,        2,          now + 1,          now - 1,
                                    now * 2, now / 2,  now + 32,   1u << 31,         0xFFFFFFFFu,
                                    3,       now ^ 64, ~0ull >> 1, now + (1u << 20), ~0ull};
    return wholes[below(std::size(wholes))];
  }

  std::mt19937 random_;
};

class GgufFaults : public ::testing::TestWithParam<const char*> {};

TEST_P(GgufFaults, Promise6AnyChangedFieldIsRefusedOrComputed) {
  const CheckpointCopy copy(GetParam());
  const auto path = copy.folder() / "model.gguf";
  std::ifstream in(path, std::ios::binary);
  const std::string file((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const Walker walker(file);
  ASSERT_GT(walker.fields.size(), 50u);
  Changes changes(20241130);
  int refused = 0;
  int computed = 0;
  for (int round = 0; round < 300; ++round) {
    std::ofstream(path, std::ios::binary) << changes.changed(file, walker.fields);
    EngineOptions options;
    options.model = copy.folder();
    options.context = 64;
    options.all_logits = true;
    const auto engine = Engine::open(options);
    const auto found =
        engine ? trace(**engine, {3, 5, 7}) : Result<Trace>(tl::unexpected(engine.error()));
    if (found) {
      ++computed;
      for (const float logit : found->logits) ASSERT_TRUE(std::isfinite(logit)) << round;
    } else {
      ++refused;
      EXPECT_FALSE(found.error().message.empty());
      EXPECT_NE(found.error().kind, ErrorKind::drive) << found.error().message;
    }
  }
  EXPECT_GT(refused, 30);
  EXPECT_GT(computed, 10);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, GgufFaults,
                         ::testing::Values("gguf-blocks-tiny", "gguf-qwen3moe-tiny",
                                           "gguf-gpt-oss-tiny", "gguf-mixtral-tiny",
                                           "gguf-deepseek-tiny"),
                         [](const auto& test) { return test_name(test.param); });

/// The message with which the file is refused after one number of its metadata was changed.
std::string refusal(const std::string& key, std::uint32_t number) {
  const CheckpointCopy copy("gguf-deepseek-tiny");
  const auto path = copy.folder() / "model.gguf";
  std::ifstream in(path, std::ios::binary);
  std::string file((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const std::size_t at = file.find(key);
  if (at == std::string::npos) return "no such key";
  constexpr std::size_t kType = sizeof(std::uint32_t);
  std::memcpy(file.data() + at + key.size() + kType, &number, sizeof(number));
  std::ofstream(path, std::ios::binary) << file;
  EngineOptions options;
  options.model = copy.folder();
  options.context = 64;
  const auto engine = Engine::open(options);
  return engine ? "opened" : engine.error().message;
}

TEST(GgufDeepseek, WhatItsLayersCannotBeIsRefusedByName) {
  const auto refused = [](const char* key, std::uint32_t number, const char* with) {
    const std::string message = refusal(std::string("deepseek2.") + key, number);
    EXPECT_NE(message.find(with), std::string::npos) << key << ": " << message;
    EXPECT_NE(message.find(key), std::string::npos) << message;
  };
  EXPECT_EQ(refusal("deepseek2.expert_used_count", 2), "opened");
  refused("expert_gating_func", 1, "only 2 (sigmoid");  // DeepSeek V2's softmax
  refused("expert_group_count", 3, "do not divide");
  refused("attention.head_count_kv", 2, "MLA has no groups");
  refused("rope.dimension_count", 7, "odd number");
  refused("attention.key_length_mla", 8, "more than rope.dimension_count");
}

}  // namespace
}  // namespace sluice::engine
