// --model-dir: weight files where the user put them, once or more than once.
#include <gtest/gtest.h>

#include "cli/models.h"
#include "cli/program.h"

namespace sluice::cli {
namespace {

constexpr const char* kSecond = "model-00002-of-000003.safetensors";

std::vector<std::string> run_with(const std::string& model, const std::vector<std::string>& more) {
  const Json prompt = prompt_of(golden_of("k3-tiny"), "len7");
  std::vector<std::string> arguments = {
      "run",      model,         "--ids",     joined(prompt.at("tokens")),
      "--greedy", "--print-ids", "--max-new", std::to_string(prompt.at("greedy").size())};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string golden_ids() {
  return joined(prompt_of(golden_of("k3-tiny"), "len7").at("greedy")) + "\n";
}

TEST(ModelDir, ShardsMayLieInSeveralFolders) {
  const ModelCopy model(kTiny);
  const Folder other;
  fs::rename(model / kSecond, other / kSecond);
  EXPECT_EQ(run_program(run_with(model.path(), {})).exit_code, 3);
  const Finished run = run_program(run_with(model.path(), {"--model-dir", other.path().string()}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, golden_ids());
  const Finished info = run_program({"info", model.path(), "--model-dir", other.path().string()});
  EXPECT_EQ(info.exit_code, 0) << info.err;
}

TEST(ModelDir, AMirrorAnswersAsTheModelDoesWhateverTheWayAndSizeOfReading) {
  const ModelCopy first(kTiny);
  const ModelCopy second(kTiny);
  for (const char* way : {"pread", "mmap", "uring"}) {
    const Finished run = run_program(
        run_with(kTiny, {"--model-dir", first.path(), "--model-dir", second.path(), "--io", way,
                         "--read-size", "8K", "--queue-depth", "3", "--ram", "64M"}));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.out, golden_ids()) << way;
  }
}

TEST(ModelDir, WhatIsWrongWithACopyIsListedAtOpen) {
  const ModelCopy copy(kTiny);
  fs::resize_file(copy / kSecond, 1000);
  const Finished run = run_program(
      run_with(kTiny, {"--model-dir", copy.path(), "--model-dir", copy / "not-mounted"}));
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_EQ(run.out, "");
  for (const std::string& part :
       {copy / kSecond, std::string("found 1000"), copy / "not-mounted"}) {
    EXPECT_NE(run.err.find(part), std::string::npos) << run.err;
  }
}

TEST(ModelDir, InfoSaysWhereTheFilesAndTheirCopiesLie) {
  const ModelCopy copy(kTiny);
  fs::remove(copy / kSecond);
  const Finished text = run_program({"info", kTiny, "--model-dir", copy.path()});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  for (const std::string& part : {kTiny + ": 3 of the files", copy.path() + ": copies of 2"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << text.out;
  }
  EXPECT_EQ(run_program({"info", kTiny}).out.find("of the files"), std::string::npos);
  const Json files =
      Json::parse(run_program({"info", kTiny, "--model-dir", copy.path(), "--json"}).out)
          .at("files");
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0].at("copies"), Json::array({copy / "model-00001-of-000003.safetensors"}));
  EXPECT_EQ(files[1].at("copies"), Json::array());
}

TEST(ModelDir, AReadSizeThatIsNoMultipleOfABlockIsRefused) {
  const Finished run = run_program(run_with(kTiny, {"--read-size", "5000"}));
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_NE(run.err.find("--read-size 5000"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace sluice::cli
