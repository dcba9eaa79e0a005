// sluice synth: a checkpoint that the other commands open.
#include <gtest/gtest.h>

#include "cli/models.h"
#include "cli/program.h"

namespace sluice::cli {
namespace {

TEST(Synth, WritesAShapeThatInfoUnderstands) {
  const Folder folder;
  const std::string model = folder / "k3";
  const std::vector<std::string> arguments = {"synth", "kimi-k3",   model,    "--layers",
                                              "4",     "--experts", "20",     "--vocab",
                                              "1024",  "--sparse",  "--seed", "7"};
  const Finished synth = run_program(arguments);
  EXPECT_EQ(synth.exit_code, 0) << synth.err;
  EXPECT_EQ(synth.err, "");
  EXPECT_NE(synth.out.find(model), std::string::npos) << synth.out;
  const Finished info = run_program({"info", model, "--json"});
  EXPECT_EQ(info.exit_code, 0) << info.err;
  const Json facts = Json::parse(info.out);
  EXPECT_EQ(facts.at("layers"), 4);
  EXPECT_EQ(facts.at("experts"), 20);
  EXPECT_EQ(facts.at("vocabulary"), 1024);
  EXPECT_EQ(facts.at("classes").at("expert").at("bytes"), 3 * 20 * 17'547'264ull);
}

TEST(Synth, LeavesFoldersOfOthersAlone) {
  const Folder folder;
  write_file(folder / "letter.txt", "dear reader");
  const Finished synth = run_program(
      {"synth", "kimi-k3", folder.path().string(), "--layers", "2", "--experts", "1", "--sparse"});
  EXPECT_EQ(synth.exit_code, 2) << synth.out;
  EXPECT_EQ(read_file(folder / "letter.txt"), "dear reader");
}

TEST(Synth, WantsAFolder) {
  const Finished run = run_program({"synth", "kimi-k3", "/dev/null", "--layers", "2"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("/dev/null: is there and is no folder"), std::string::npos) << run.err;
}

TEST(Synth, RefusesShapesThatAreNone) {
  const Folder folder;
  for (const std::vector<std::string>& flag : std::vector<std::vector<std::string>>{
           {"--layers", "1"}, {"--experts", "0"}, {"--vocab", "5"}, {"--seed", "-1"}}) {
    const Finished synth = run_program({"synth", "kimi-k3", folder / "m", flag[0], flag[1]});
    EXPECT_EQ(synth.exit_code, 2);
    EXPECT_NE(synth.err.find(flag[0]), std::string::npos) << synth.err;
  }
  EXPECT_FALSE(fs::exists(folder / "m"));
}

}  // namespace
}  // namespace sluice::cli
