// Synthetic checkpoints: the real layout to the byte, weights that compute, and nothing of
// anybody's overwritten.
#include "engine/synth.h"

#define XXH_INLINE_ALL
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "engine/synth_plan.h"
#include "engine/synth_texts.h"
#include "engine/synth_weights.h"
#include "store/checkpoint.h"
#include "text/vocabulary.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;

class SynthFolder : public testing::Test {
 protected:
  SynthFolder() {
    std::string name = (fs::temp_directory_path() / "sluice-synth-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    root_ = name;
    options_.folder = root_ / "model";
    options_.layers = 2;
    options_.experts = 2;
    options_.vocabulary = 512;
    options_.sparse = true;
  }
  ~SynthFolder() override {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }

  Status synthesize() {
    return synthesize_kimi_k3(options_, [](const SynthProgress&) {});
  }

  fs::path root_;
  SynthOptions options_;
};

std::string bytes_of_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// Absolute offset of the first expert's first byte, 0 if there are no experts.
std::uint64_t first_expert(const SynthShard& shard) {
  std::uint64_t offset = 8 + shard.header.size();
  for (const SynthTensor& tensor : shard.tensors) {
    if (tensor.name.find(".experts.") != std::string::npos) return offset;
    offset += tensor.bytes();
  }
  return 0;
}

TEST(SynthPlan, ShardsHaveTheReleasesHeadersOffsetsAndSizes) {  // SPEC 3
  struct Row {
    std::uint64_t shard;  // from 0
    std::uint64_t header, first_expert, file;
  };
  for (const Row& row :
       {Row{0, 2920, 0, 2341216112}, Row{1, 818696, 1268562960, 16990911504},
        Row{9, 818696, 1268562960, 16990911504}, Row{10, 824104, 1268568368, 16990916912},
        Row{90, 824104, 1268568368, 16990916912}, Row{3, 817608, 845153232, 16567501776},
        Row{7, 817608, 845153232, 16567501776}, Row{11, 823008, 845158632, 16567507176},
        Row{91, 823008, 845158632, 16567507176}, Row{92, 823008, 845158632, 16567507176},
        Row{93, 576, 0, 4697664072}, Row{94, 296, 0, 92289328}, Row{95, 19416, 0, 802448352}}) {
    const SynthShard shard = make_shard({}, row.shard);
    EXPECT_EQ(shard.header.size(), row.header) << row.shard;
    EXPECT_EQ(first_expert(shard), row.first_expert) << row.shard;
    EXPECT_EQ(shard.file_bytes(), row.file) << row.shard;
  }
}

TEST(SynthPlan, The96HeadersAreTheReleasesByteForByte) {
  // The hash was taken over the headers that the release's pinned inventory gives.
  constexpr std::uint64_t kReleased = 0xE4C9508F6D19A790;
  XXH3_state_t* state = XXH3_createState();
  XXH3_64bits_reset(state);
  for (std::uint64_t index = 0; index < 96; ++index) {
    const SynthShard shard = make_shard({}, index);
    XXH3_64bits_update(state, shard.header.data(), shard.header.size());
  }
  const std::uint64_t hash = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  EXPECT_EQ(hash, kReleased);
}

TEST(SynthPlan, TheDefaultsAreTheReleasesTotals) {  // SPEC 2.6
  const auto size = synth_size({});
  ASSERT_TRUE(size);
  EXPECT_EQ(size->shards, 96u);
  EXPECT_EQ(size->tensors, 497220u);
  EXPECT_EQ(size->payload_bytes, 1560860324864u);
  EXPECT_EQ(size->file_bytes, 1560936091448u);
  SynthOptions sparse;
  sparse.sparse = true;
  EXPECT_LT(synth_size(sparse)->disk_bytes, 150000000u);
}

TEST(SynthPlan, OptionsOutOfRangeAreNamed) {
  const auto refused = [](auto change) {
    SynthOptions options;
    change(options);
    const auto size = synth_size(options);
    EXPECT_FALSE(size);
    if (size) return std::string();
    EXPECT_EQ(size.error().kind, ErrorKind::usage);
    return size.error().message;
  };
  EXPECT_EQ(refused([](SynthOptions& o) { o.layers = 1; }), "layers: expected 2 to 999, found 1");
  EXPECT_EQ(refused([](SynthOptions& o) { o.experts = 0; }),
            "experts: expected 1 to 9999, found 0");
  EXPECT_EQ(refused([](SynthOptions& o) { o.vocabulary = 511; }),
            "vocabulary: expected 512 to 1048576, found 511");
}

TEST(SynthTexts, TheDefaultConfigIsTheReleasesByteForByte) {  // SPEC 1
  const std::string config = synth_config({});
  EXPECT_EQ(config.size(), 7006u);
  EXPECT_EQ(XXH3_64bits(config.data(), config.size()), 0xEEB080E747DF2340u);
  EXPECT_EQ(synth_generation_config({}),
            "{\n  \"max_length\": 1048576,\n  \"eos_token_id\": 163586\n}");
}

TEST(SynthTexts, FewerLayersKeepThePattern) {
  SynthOptions options;
  options.layers = 6;
  options.experts = 8;
  options.vocabulary = 4096;
  const auto config = nlohmann::json::parse(synth_config(options));
  const auto& text = config["text_config"];
  EXPECT_EQ(text["linear_attn_config"]["full_attn_layers"], nlohmann::json({4, 6}));
  EXPECT_EQ(text["linear_attn_config"]["kda_layers"], nlohmann::json({1, 2, 3, 5}));
  EXPECT_EQ(text["num_hidden_layers"], 6);
  EXPECT_EQ(text["num_experts"], 8);
  EXPECT_EQ(text["num_experts_per_token"], 8);
  EXPECT_EQ(text["vocab_size"], 4096);
  EXPECT_EQ(text["eos_token_id"], 3842);
  EXPECT_EQ(config["media_placeholder_token_id"], 3861);
}

TEST(SynthTexts, TheTokenizerHasAllRanksAndAllBytes) {
  for (const int vocabulary : {512, 4096, 163840}) {
    SynthOptions options;
    options.vocabulary = vocabulary;
    const auto ranks = text::Vocabulary::parse(synth_ranks(options), "tiktoken.model");
    ASSERT_TRUE(ranks) << ranks.error().message;
    EXPECT_EQ(ranks->ranks(), static_cast<std::size_t>(vocabulary - 256));
    EXPECT_EQ(ranks->byte_token(33), 0);
    EXPECT_EQ(ranks->byte_token(' '), 220);
    EXPECT_EQ(ranks->byte_token(173), 255);
    for (std::size_t id = 0; id < ranks->ranks(); ++id) {
      const auto token = static_cast<std::int32_t>(id);
      ASSERT_EQ(ranks->find(ranks->bytes_of(token)), token);  // no token twice
    }
  }
  const auto config = nlohmann::json::parse(synth_tokenizer_config({}));
  EXPECT_EQ(config["added_tokens_decoder"].size(), 16u);
  EXPECT_EQ(config["added_tokens_decoder"]["163586"]["content"], "<|end_of_msg|>");
  EXPECT_EQ(config["added_tokens_decoder"]["163587"]["special"], false);
  EXPECT_EQ(config["added_tokens_decoder"]["163605"]["content"], "<|media_pad|>");
}

/// The tensor of a shard with this ending, and its first bytes, drawn in two parts.
SynthTensor tensor_of(std::uint64_t shard, std::string_view ending) {
  SynthOptions options;
  options.layers = 5;
  options.experts = 2;
  options.vocabulary = 512;
  for (const SynthTensor& tensor : make_shard(options, shard).tensors) {
    if (tensor.name.ends_with(ending)) return tensor;
  }
  ADD_FAILURE() << "no " << ending;
  return {};
}

std::vector<std::byte> draw(const SynthTensor& tensor, std::uint64_t offset, std::size_t bytes,
                            std::uint64_t seed = 1) {
  std::vector<std::byte> drawn(bytes);
  WeightFiller(tensor, seed).fill(offset, drawn);
  return drawn;
}

std::vector<float> values_of(const SynthTensor& tensor, std::size_t count) {
  std::vector<float> values(count);
  const auto drawn = draw(tensor, 0, count * bytes_of(tensor.dtype));
  for (std::size_t i = 0; i < count; ++i) {
    if (tensor.dtype == DType::f32) {
      std::memcpy(&values[i], drawn.data() + 4 * i, 4);
    } else {
      std::uint16_t half = 0;
      std::memcpy(&half, drawn.data() + 2 * i, 2);
      values[i] = std::bit_cast<float>(std::uint32_t{half} << 16);
    }
  }
  return values;
}

void expect_normal(const SynthTensor& tensor, double mean, double spread) {
  const auto values = values_of(tensor, std::min<std::uint64_t>(tensor.active, 20000));
  double sum = 0, squares = 0;
  for (const float value : values) {
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
    squares += (value - mean) * (value - mean);
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(sum / count, mean, 5 * spread / std::sqrt(count)) << tensor.name;
  EXPECT_NEAR(std::sqrt(squares / count), spread, spread * 5 / std::sqrt(count)) << tensor.name;
}

TEST(SynthWeights, MatricesKeepTheSizeOfWhatTheyMultiply) {
  expect_normal(tensor_of(1, "q_proj.weight"), 0, 1 / std::sqrt(7168.0));
  expect_normal(tensor_of(1, "o_proj.weight"), 0, 1 / std::sqrt(12288.0));
  expect_normal(tensor_of(1, "input_layernorm.weight"), 1, 0.1);
  expect_normal(tensor_of(1, "dt_bias"), -2, 0.5);
  expect_normal(tensor_of(1, "A_log"), 0.7, 0.3);
  expect_normal(tensor_of(5, "lm_head.weight"), 0, 1 / std::sqrt(7168.0));
}

TEST(SynthWeights, DecaysBehindTheHeadsAreZero) {  // SPEC 2.2
  const auto values = values_of(tensor_of(1, "A_log"), 128);
  for (std::size_t head = 0; head < 96; ++head) EXPECT_NE(values[head], 0) << head;
  for (std::size_t head = 96; head < 128; ++head) EXPECT_EQ(values[head], 0) << head;
}

TEST(SynthWeights, ExpertsHaveAllCodesAndThreeSaneScales) {
  std::map<int, int> codes, scales;
  for (const std::byte byte : draw(tensor_of(1, "w1.weight_packed"), 0, 16000)) {
    ++codes[std::to_integer<int>(byte) & 15];
    ++codes[std::to_integer<int>(byte) >> 4];
  }
  EXPECT_EQ(codes.size(), 16u);
  for (const auto& [code, count] : codes) EXPECT_NEAR(count, 2000, 250) << code;
  for (const std::byte byte : draw(tensor_of(1, "w1.weight_scale"), 0, 16000))
    ++scales[std::to_integer<int>(byte)];
  // 3584 columns of codes with an rms of 2.93: 2^-7 makes their product about as large as its
  // input.
  EXPECT_EQ(scales.size(), 3u);
  EXPECT_GT(scales[120], scales[119]);
  EXPECT_GT(scales[119], 3000);
  EXPECT_GT(scales[121], 3000);
}

TEST(SynthWeights, ThePartsOfATensorAreThoseOfTheWhole) {
  for (const char* name :
       {"q_proj.weight", "dt_bias", "w1.weight_packed", "w1.weight_scale", "A_log"}) {
    const SynthTensor tensor = tensor_of(1, name);
    const std::size_t size = std::min<std::uint64_t>(tensor.bytes(), 4096);
    const auto whole = draw(tensor, 0, size);
    auto parts = draw(tensor, 0, 64);
    for (const std::byte byte : draw(tensor, 64, size - 64)) parts.push_back(byte);
    EXPECT_EQ(parts, whole) << name;
    EXPECT_NE(draw(tensor, 0, size, 2), whole) << name;
  }
  EXPECT_NE(draw(tensor_of(1, "q_proj.weight"), 0, 64), draw(tensor_of(1, "k_proj.weight"), 0, 64));
}

TEST_F(SynthFolder, ASparseCheckpointOpensAndTakesLittleRoom) {
  options_.layers = 5;
  options_.experts = 12;
  options_.vocabulary = 4096;
  std::uint64_t last = 0;
  const auto status = synthesize_kimi_k3(options_, [&](const SynthProgress& now) {
    EXPECT_GE(now.bytes_done, last);
    last = now.bytes_done;
    EXPECT_EQ(now.shards, 8u);
  });
  ASSERT_TRUE(status) << status.error().message;
  const auto size = synth_size(options_);
  EXPECT_EQ(last, size->file_bytes);
  const auto checkpoint = store::Checkpoint::open(options_.folder);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensor_count(), size->tensors);
  EXPECT_EQ(checkpoint->payload_bytes(), size->payload_bytes);
  EXPECT_TRUE(checkpoint->notes().empty());
  std::uint64_t room = 0;
  for (const auto& file : fs::directory_iterator(options_.folder)) {
    struct stat facts {};
    ASSERT_EQ(stat(file.path().c_str(), &facts), 0);
    room += static_cast<std::uint64_t>(facts.st_blocks) * 512;
  }
  EXPECT_LT(room, std::uint64_t{4} << 20);
  EXPECT_LE(room, size->disk_bytes);
  const SynthShard layer = make_shard(options_, 1);
  EXPECT_EQ(checkpoint->files()[1].size, layer.file_bytes());
  const auto first =
      checkpoint->find("language_model.model.layers.1.block_sparse_moe.experts.0.w1.weight_packed");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->offset, first_expert(layer));
  EXPECT_TRUE(checkpoint->find("language_model.model.layers.4.self_attn.kv_b_proj.weight"));
  EXPECT_TRUE(checkpoint->find("vision_tower.encoder.blocks.26.wo.weight"));
  EXPECT_EQ(checkpoint->find("language_model.lm_head.weight")->shape.size[0], 4096u);
}

TEST_F(SynthFolder, AFolderWithAnythingElseIsLeftAlone) {
  fs::create_directories(options_.folder);
  std::ofstream(options_.folder / "config.json") << "mine";
  const auto status = synthesize();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::usage);
  EXPECT_NE(status.error().message.find("not empty"), std::string::npos);
  EXPECT_EQ(bytes_of_file(options_.folder / "config.json"), "mine");
}

TEST_F(SynthFolder, TheSameOptionsGoOnAndOthersAreRefused) {
  Cancellation cancellation;
  const auto stop_at_second = [&](const SynthProgress& now) {
    if (now.shard == 2) cancellation.request();
  };
  const auto stopped = synthesize_kimi_k3(options_, stop_at_second, &cancellation);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().kind, ErrorKind::interrupted);
  EXPECT_FALSE(store::Checkpoint::open(options_.folder));
  for (const auto& entry : fs::directory_iterator(options_.folder)) {
    EXPECT_NE(entry.path().extension(), ".part");
  }
  const auto written = fs::last_write_time(options_.folder / "model-00001-of-000005.safetensors");
  const auto finished = synthesize();
  ASSERT_TRUE(finished) << finished.error().message;
  EXPECT_TRUE(store::Checkpoint::open(options_.folder));
  EXPECT_EQ(fs::last_write_time(options_.folder / "model-00001-of-000005.safetensors"), written);
  options_.seed = 2;
  const auto other = synthesize();
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("other options"), std::string::npos);
}

TEST_F(SynthFolder, TooLittleRoomIsSaidBeforeTheStart) {
  options_.layers = 999;
  options_.experts = 64;
  options_.sparse = false;
  constexpr std::uint64_t kExperts = std::uint64_t{999} * 64 * 17'547'264;  // bytes of data
  if (fs::space(root_).available > kExperts) GTEST_SKIP() << "a drive that may have the room";
  const auto status = synthesize();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::drive);
  EXPECT_NE(status.error().message.find("not enough room"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(options_.folder));
}

}  // namespace
}  // namespace sluice::engine
