// Files that a command writes: never ones that it reads, and never a model's.
#include <gtest/gtest.h>

#include <map>

#include "cli/models.h"
#include "cli/program.h"

namespace sluice::cli {
namespace {

/// All bytes of a folder, by file name.
std::map<std::string, std::string> contents_of(const fs::path& folder) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : fs::directory_iterator(folder)) {
    contents[entry.path().filename().string()] = read_file(entry.path());
  }
  return contents;
}

void expect_refused(const std::vector<std::string>& arguments, const std::string& flag) {
  const Finished run = run_program(arguments);
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_NE(run.err.find(flag), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("give another"), std::string::npos) << run.err;
}

/// Every flag that names a file to write, with a command that takes it.
struct Writer {
  std::string flag;
  std::vector<std::string> arguments;
};

std::vector<Writer> writers(const std::string& model, const Folder& room) {
  const std::vector<std::string> run = {"run", model, "--ids", "1", "--max-new", "1"};
  const std::vector<std::string> perplexity = {"perplexity", model, "-p", "Alice was"};
  const std::vector<std::string> decode = {"bench", "decode", model, "--tokens", "1"};
  const std::vector<std::string> prefill = {"bench", "prefill", model, "--tokens", "1"};
  const std::vector<std::string> logits = {"logits", model, "--ids", "1", "--out", room / "l"};
  return {{"--trace", run},
          {"--stats-json", run},
          {"--trace", {"chat", model}},
          {"--trace", {"serve", model, "--port", "0"}},
          {"--stats-json", {"serve", model, "--port", "0"}},
          {"--trace", perplexity},
          {"--stats-json", perplexity},
          {"--trace", decode},
          {"--stats-json", decode},
          {"--stats-json", prefill},
          {"--stats-json", logits},
          {"--hidden", logits},
          {"--routes", logits},
          {"--out", {"logits", model, "--ids", "1"}},
          {"--out", {"batch", room / "in", "--model", model}}};
}

TEST(Outputs, NeverTakeThePlaceOfTheModelsFiles) {
  const ModelCopy model(kTiny);
  const Folder room;
  write_file(room / "in", "");
  fs::create_hard_link(model / "config.json", room / "hard");
  fs::create_symlink(model / "model-00001-of-000003.safetensors", room / "soft");
  const auto before = contents_of(model.path());
  ASSERT_GT(before.size(), 2u);
  for (const Writer& writer : writers(model.path(), room)) {
    for (const std::string& target : {model / "model-00001-of-000003.safetensors",
                                      model / "config.json", room / "hard", room / "soft"}) {
      std::vector<std::string> arguments = writer.arguments;
      arguments.insert(arguments.end(), {writer.flag, target});
      expect_refused(arguments, writer.flag);
      EXPECT_EQ(contents_of(model.path()), before) << writer.flag << " " << target;
    }
  }
}

TEST(Outputs, NeverTakeThePlaceOfFilesInFurtherFolders) {
  const ModelCopy model(kTiny);
  const ModelCopy copy(kTiny);
  const auto before = contents_of(copy.path());
  for (const char* flag : {"--trace", "--stats-json"}) {
    for (const std::string& target :
         {copy / "model-00001-of-000003.safetensors", copy / "config.json"}) {
      expect_refused({"run", model.path(), "--model-dir", copy.path(), "--ids", "1", flag, target},
                     flag);
    }
  }
  EXPECT_EQ(contents_of(copy.path()), before);
}

TEST(Outputs, NeverTakeThePlaceOfAPacksParts) {
  const Folder folder;
  const std::string first = folder / "one";
  const std::string second = folder / "two";
  ASSERT_EQ(run_program({"pack", kTiny, "--out", first, "--out", second, "--speed", "equal",
                         "--stripe", "64K"})
                .exit_code,
            0);
  fs::create_hard_link(fs::path(second) / "sluice-pack-2-of-2.data", folder / "hard");
  const auto before = contents_of(second);
  ASSERT_FALSE(before.empty());
  expect_refused({"run", first, "--ids", "1", "--trace", folder / "hard"}, "--trace");
  expect_refused({"run", kTiny, "--ids", "1", "--trace", second + "/sluice-pack-2-of-2.data"},
                 "--trace");
  EXPECT_EQ(contents_of(second), before);
}

TEST(Outputs, NeverTakeThePlaceOfAnotherModelsWeights) {
  const ModelCopy other(kTiny);
  const auto before = contents_of(other.path());
  expect_refused(
      {"run", kNano, "--ids", "1", "--stats-json", other / "model-00001-of-000003.safetensors"},
      "--stats-json");
  EXPECT_EQ(contents_of(other.path()), before);
}

TEST(Outputs, OfAModelInOneFileSpareThatFileOnly) {
  const Folder folder;
  const fs::path source = SLUICE_SOURCE_DIR "/tests/golden/gguf-blocks-tiny/checkpoint/model.gguf";
  const std::string model = folder / "model.gguf";
  fs::copy_file(source, model);
  const std::string before = read_file(model);
  expect_refused({"run", model, "--ids", "1", "--trace", model}, "--trace");
  EXPECT_EQ(read_file(model), before);
  // Whoever keeps a GGUF file among other things may write there, and again.
  for (int i = 0; i < 2; ++i) {
    const Finished run = run_program({"run", model, "--ids", "1", "--max-new", "1", "--print-ids",
                                      "--stats-json", folder / "statistics.json"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
  }
}

TEST(Outputs, NeverTakeThePlaceOfWhatIsRead) {
  const Folder folder;
  write_file(folder / "prompt", "Alice");
  expect_refused({"run", kNano, "-f", folder / "prompt", "--trace", folder / "prompt"}, "--trace");
  EXPECT_EQ(read_file(folder / "prompt"), "Alice");
}

TEST(Outputs, AreDifferentFiles) {
  const Folder folder;
  const Finished run = run_program({"run", kNano, "--ids", "1", "--trace", folder / "x",
                                    "--stats-json", folder.path() / "." / "x"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("must be different files"), std::string::npos) << run.err;
  EXPECT_FALSE(fs::exists(folder / "x"));
}

}  // namespace
}  // namespace sluice::cli
