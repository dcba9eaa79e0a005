// An architecture from a config.json alone: the sizes are those of the release.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "io/make_reader.h"
#include "model/registry.h"
#include "store/model_files.h"
#include "weights/expert_reads.h"

namespace sluice::model {
namespace {

namespace fs = std::filesystem;

fs::path golden(const std::string& name) {
  return fs::path(SLUICE_SOURCE_DIR) / "tests/golden" / name;
}

std::unique_ptr<Architecture> imagine(const fs::path& config) {
  auto architecture = imagine_architecture(config);
  EXPECT_TRUE(architecture) << architecture.error().message;
  return architecture ? std::move(*architecture) : nullptr;
}

std::unique_ptr<Architecture> open(const fs::path& folder, io::Reader& reader) {
  const auto checkpoint = store::Checkpoint::open(folder);
  EXPECT_TRUE(checkpoint);
  std::vector<io::FileId> files;
  for (const store::ShardFile& file : checkpoint->files()) files.push_back(*reader.open(file.path));
  auto architecture = open_architecture(*checkpoint, files);
  EXPECT_TRUE(architecture) << architecture.error().message;
  return std::move(*architecture);
}

ClassTotal total(const Architecture& architecture, TensorClass tensor_class) {
  return architecture.blueprint().totals[static_cast<std::size_t>(tensor_class)];
}

TEST(Imagined, KimiK3HasTheTotalsOfItsReleaseToTheByte) {  // SPEC 2.6
  const auto k3 = imagine(golden("k3-config.json"));
  ASSERT_NE(k3, nullptr);
  EXPECT_EQ(total(*k3, TensorClass::experts).tensors, 494'592u);
  EXPECT_EQ(total(*k3, TensorClass::experts).bytes, 1'446'456'066'048u);
  EXPECT_EQ(total(*k3, TensorClass::trunk).tensors, 2'455u);
  EXPECT_EQ(total(*k3, TensorClass::trunk).bytes, 108'811'877'376u);
  EXPECT_EQ(total(*k3, TensorClass::embedding).bytes, 2'348'810'240u);
  EXPECT_EQ(total(*k3, TensorClass::head).bytes, 2'348'810'240u);
  EXPECT_EQ(total(*k3, TensorClass::final_norms).tensors, 3u);
  EXPECT_EQ(total(*k3, TensorClass::final_norms).bytes, 43'008u);
}

TEST(Imagined, AnExpertIsOneReadOfItsReleasedSize) {
  const auto k3 = imagine(golden("k3-config.json"));
  ASSERT_NE(k3, nullptr);
  const weights::ExpertLayer& layer = k3->blueprint().blocks.expert_layers[92];
  ASSERT_EQ(layer.experts.size(), 896u);
  EXPECT_EQ(layer.block_bytes(), 17'547'264u);
  EXPECT_EQ(weights::reads_of(layer, layer.experts[895]).size(), 1u);
}

TEST(Imagined, ACheckpointsConfigGivesTheCheckpointsSizes) {
  const auto reader = *io::make_reader(io::IoMode::pread);
  for (const char* name : {"k3-tiny", "k3-small", "mixtral-tiny", "qwen3moe-tiny", "deepseek-tiny",
                           "deepseek-fp8-tiny", "kimi-k2-tiny", "gpt-oss-tiny"}) {
    const fs::path folder = golden(name) / "checkpoint";
    const auto opened = open(folder, *reader);
    const auto imagined = imagine(folder / "config.json");
    ASSERT_NE(imagined, nullptr);
    for (const auto each : {TensorClass::experts, TensorClass::trunk, TensorClass::embedding,
                            TensorClass::head, TensorClass::final_norms}) {
      EXPECT_EQ(total(*imagined, each).tensors, total(*opened, each).tensors) << name;
      EXPECT_EQ(total(*imagined, each).bytes, total(*opened, each).bytes) << name;
    }
    EXPECT_EQ(imagined->state_bytes(100), opened->state_bytes(100));
    EXPECT_EQ(imagined->blueprint().blocks.matrices.size(),
              opened->blueprint().blocks.matrices.size());
  }
}

TEST(Imagined, WithoutQuantizationTheExpertsArePlain) {
  const auto linear = imagine(golden("kl-tiny") / "checkpoint" / "config.json");
  ASSERT_NE(linear, nullptr);
  EXPECT_EQ(linear->blueprint().blocks.expert_layers.back().parts, 3u);
}

TEST(Imagined, RefusesAConfigThatNoMachineCouldListTheExpertsOf) {
  std::ifstream in(golden("k3-config.json"));
  auto config = nlohmann::json::parse(in);
  config["text_config"]["num_experts"] = 65536;
  const store::TempFolder folder;
  const auto refused = imagine_architecture(folder.write("config.json", config.dump()));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::model_files);
  EXPECT_NE(refused.error().message.find("experts"), std::string::npos) << refused.error().message;
}

TEST(Imagined, RefusesWhatIsNoConfig) {
  EXPECT_FALSE(imagine_architecture(golden("nothing.json")));
  EXPECT_FALSE(imagine_architecture(golden("k3-tiny") / "golden.json"));
}

}  // namespace
}  // namespace sluice::model
