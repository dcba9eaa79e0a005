// sluice plan: from a config alone and from a checkpoint, every flag honoured or refused.
#include <gtest/gtest.h>

#include "cli/models.h"
#include "cli/program.h"

namespace sluice::cli {
namespace {

const std::string kConfig = SLUICE_SOURCE_DIR "/tests/golden/k3-config.json";
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

/// Its JSON; a profile, so that nothing is measured.
Json plan(std::vector<std::string> flags, const std::string& model = kConfig) {
  std::vector<std::string> arguments = {"plan", model, "--json", "--profile", "laptop-16"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const Finished finished = run_program(arguments);
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(finished.err, "");
  return Json::parse(finished.out, nullptr, false);
}

Json line_at(const Json& plan, std::uint64_t ram) {
  for (const Json& line : plan.at("memory")) {
    if (line.at("ram_bytes") == ram) return line;
  }
  ADD_FAILURE() << "no line for " << ram;
  return {};
}

/// K3 on a laptop, without flags; once, since it takes a while.
const Json& plain_plan() {
  static const Json k3 = plan({});
  return k3;
}

TEST(PlanCommand, TheConfigAloneGivesTheBytesOfTheRelease) {  // SPEC 2.6 and 8
  const Json& k3 = plain_plan();
  EXPECT_EQ(k3.at("from_config"), true);
  EXPECT_EQ(k3.at("classes").at("experts").at("bytes"), 1'446'456'066'048u);
  EXPECT_EQ(k3.at("classes").at("trunk").at("bytes"), 108'811'877'376u);
  EXPECT_EQ(k3.at("classes").at("embedding").at("bytes"), 2'348'810'240u);
  EXPECT_EQ(k3.at("classes").at("head").at("bytes"), 2'348'810'240u);
  EXPECT_EQ(k3.at("a_token_uses").at("expert_bytes"), 25'829'572'608u);
  EXPECT_EQ(k3.at("machine").at("drive_bytes_per_s"), 3e9);
}

TEST(PlanCommand, AConfigBesideAnIndexIsPlannedAsLongAsNoShardIsThere) {
  const Folder folder;
  fs::copy_file(kConfig, folder / "config.json");
  write_file(folder / "model.safetensors.index.json", "{}");
  write_file(folder / "model-00001-of-000096.safetensors.incomplete", "half of it");
  const Finished plan =
      run_program({"plan", folder.path().string(), "--ram", "8G", "--drive", "3", "--json"});
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_EQ(Json::parse(plan.out).at("from_config"), true);
  write_file(folder / "model-00002-of-000096.safetensors", "");
  EXPECT_EQ(run_program({"plan", folder.path().string(), "--drive", "3"}).exit_code, 3);
}

TEST(PlanCommand, TheLadderGoesFrom8To128AndIsMonotone) {
  const Json& k3 = plain_plan();
  double last = 1e300;
  for (const std::uint64_t size : {8u, 16u, 32u, 64u, 128u}) {
    const Json line = line_at(k3, size * kGiB);
    EXPECT_EQ(line.at("fits"), true);
    const Json seconds = line.at("seconds_per_token");
    EXPECT_LE(seconds.at("low"), seconds.at("high"));
    EXPECT_LE(seconds.at("high").get<double>(), last);
    EXPECT_LE(line.at("ttft_s").at("low"), line.at("ttft_s").at("high"));
    EXPECT_FALSE(line.at("helps_most").at("text").get<std::string>().empty());
    last = seconds.at("high");
  }
}

TEST(PlanCommand, FlagsAreHonoured) {
  const Json k3 = plan({"--ram", "24G", "--drive", "2", "--ram", "1M", "--drive", "1.5GB/s",
                        "--context", "8192", "--prompt", "64"});
  EXPECT_EQ(k3.at("context"), 8192);
  EXPECT_EQ(k3.at("prompt"), 64);
  EXPECT_EQ(k3.at("machine").at("drive_bytes_per_s"), 3.5e9);
  ASSERT_EQ(k3.at("drives").size(), 2u);
  EXPECT_EQ(k3.at("drives").at(1).at("source"), "given");
  EXPECT_EQ(line_at(k3, 24 * kGiB).at("asked"), true);
  EXPECT_EQ(line_at(k3, 16 * kGiB).at("asked"), false);
  EXPECT_EQ(line_at(k3, 1 << 20).at("fits"), false);
}

TEST(PlanCommand, TwiceTheDriveHalvesWhatTheDriveLimits) {
  const Json one = line_at(plain_plan(), 16 * kGiB);
  const Json two = line_at(plan({"--drive", "3", "--drive", "3"}), 16 * kGiB);
  ASSERT_EQ(one.at("limit"), "drive");
  // Two runs of the program differ by some KiB of their own, and so by some KiB of weights.
  EXPECT_NEAR(one.at("drive_s").get<double>() / two.at("drive_s").get<double>(), 2, 1e-3);
  EXPECT_EQ(one.at("helps_most").at("change"), "drive_speed");
}

TEST(PlanCommand, ACheckpointIsPlannedAsItLies) {
  const Json nano = plan({}, kNano);
  EXPECT_EQ(nano.at("from_config"), false);
  EXPECT_GT(nano.at("classes").at("experts").at("bytes"), 0u);
  std::size_t smallest = 0;
  for (const Json& line : nano.at("memory")) {
    if (line.at("fits") == true && line.at("smallest") == true) ++smallest;
  }
  EXPECT_EQ(smallest, 1u);
  EXPECT_EQ(nano.at("memory").back().at("bytes_per_token").at("high").get<double>(),
            nano.at("a_token_uses").at("embedding_bytes").get<double>());
}

TEST(PlanCommand, TheTextNamesWhatItIsAbout) {
  const Finished text = run_program({"plan", kConfig, "--profile", "phone", "--ram", "6G"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  for (const char* part : {"config alone", "1,446,456,066,048", "--ram 6G", "limit: drive",
                           "helps most", "128G", "1 GB/s", "USB"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  }
}

TEST(PlanCommand, WrongFlagsAreRefusedByName) {
  for (const std::vector<std::string>& flag :
       std::vector<std::vector<std::string>>{{"--ram", "0"},
                                             {"--ram", "much"},
                                             {"--drive", "0"},
                                             {"--drive", "-3"},
                                             {"--drive", "/no/such/path"},
                                             {"--drive", "nan"},
                                             {"--drive", "/dev/null"},
                                             {"--context", "0"},
                                             {"--prompt", "x"},
                                             {"--profile", "toaster"}}) {
    const Finished finished = run_program({"plan", kConfig, flag[0], flag[1]});
    EXPECT_EQ(finished.exit_code, 2) << flag[0] << " " << flag[1] << finished.out;
    EXPECT_NE(finished.err.find(flag[0]), std::string::npos) << finished.err;
  }
  EXPECT_EQ(run_program({"plan"}).exit_code, 2);
}

TEST(PlanCommand, ADriveCountsOnce) {
  const Finished finished =
      run_program({"plan", kConfig, "--drive", kNano, "--drive", kNano + "/.."});
  EXPECT_EQ(finished.exit_code, 2) << finished.out;
  EXPECT_NE(finished.err.find("lies on the same drive as " + kNano), std::string::npos)
      << finished.err;
}

TEST(PlanCommand, ModelsThatAreNoneAreRefused) {
  const Folder folder;
  write_file(folder / "config.json", "{\"model_type\": \"other\"}");
  write_file(folder / "broken.json", "{");
  for (const std::string& path :
       {folder.path().string(), folder / "broken.json", folder / "missing", folder / "no.json"}) {
    const Finished finished = run_program({"plan", path, "--profile", "phone"});
    EXPECT_EQ(finished.exit_code, 3) << path << finished.err;
  }
}

}  // namespace
}  // namespace sluice::cli
