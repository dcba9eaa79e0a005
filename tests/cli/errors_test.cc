// Every way to fail has its exit code, one message on stderr, and nothing on stdout.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/models.h"
#include "cli/program.h"

namespace sluice::cli {
namespace {

/// The run failed with this code and said `needles`, and nothing else came out of it.
void expect_failure(const Finished& run, int exit_code, const std::vector<std::string>& needles) {
  EXPECT_EQ(run.exit_code, exit_code) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_TRUE(run.err.starts_with("sluice: error: ")) << run.err;
  EXPECT_EQ(run.err.find("sluice: error: ", 1), std::string::npos) << run.err;
  for (const std::string& needle : needles) {
    EXPECT_NE(run.err.find(needle), std::string::npos) << needle << " is not in: " << run.err;
  }
}

TEST(Usage, NamesTheFlagThatIsWrong) {
  const std::vector<std::vector<std::string>> flags = {
      {"--ram", "0"},
      {"--ram", "-1G"},
      {"--ram", "nan"},
      {"--ram", "99999999T"},
      {"--ram", ""},
      {"--threads", "0"},
      {"--threads", "-2"},
      {"--threads", "99999"},
      {"--threads", "two"},
      {"--chunk", "0"},
      {"--chunk", "1.5"},
      {"--chunk", "99999999999999999999"},
      {"--ctx", "0"},
      {"--ctx", "-1"},
      {"--io", "floppy"},
      {"--max-new", "-1"},
      {"--max-new", "many"},
      {"--temperature", "nan"},
      {"--temperature", "-1"},
      {"--temperature", "inf"},
      {"--top-k", "-1"},
      {"--top-p", "0"},
      {"--top-p", "1.1"},
      {"--min-p", "2"},
      {"--seed", "-1"},
      {"--seed", "x"},
      {"--ids", ""},
      {"--ids", "1,,2"},
      {"--ids", "1,-2"},
      {"--ids", "1,two"},
      {"--ids", "99999999999"},
      {"--stop", ""},
      {"--stats-json", "/no/such/folder/s.json"},
      {"--frobnicate", "1"},
      {"--effort", "low"},
  };
  for (const std::vector<std::string>& flag : flags) {
    const bool is_prompt = flag[0] == "--ids";
    std::vector<std::string> arguments = {"run", kTiny, "--max-new", "1"};
    if (flag[0] == "--max-new") arguments.resize(2);
    if (!is_prompt) arguments.insert(arguments.end(), {"-p", "x"});
    arguments.insert(arguments.end(), flag.begin(), flag.end());
    SCOPED_TRACE(fmt::format("{} '{}'", flag[0], flag[1]));
    expect_failure(run_program(arguments), 2, {flag[0]});
  }
}

TEST(Usage, AsksForWhatIsMissing) {
  expect_failure(run_program({}), 2, {"--help"});
  expect_failure(run_program({"frobnicate"}), 2, {"frobnicate"});
  expect_failure(run_program({"run"}), 2, {"MODEL", "sluice run --help"});
  expect_failure(run_program({"run", kTiny}), 2, {"no prompt", "-p", "-f", "--ids"});
  expect_failure(run_program({"run", kTiny, "-p", "a", "--ids", "1"}), 2, {"more than one prompt"});
  expect_failure(run_program({"run", kTiny, "-p", ""}), 2, {"-p", "empty", "at least one"});
  expect_failure(run_program({"run", kTiny, "-f", "-"}), 2, {"-f", "empty"});
  expect_failure(run_program({"run", kTiny, "-f", "/no/such/file"}), 2, {"-f", "/no/such/file"});
  expect_failure(run_program({"run", kTiny, "-f", kTiny}), 2, {"-f", kTiny});
  expect_failure(run_program({"run", kTiny, "-p", "a\xff"}), 2, {"UTF-8"});
  expect_failure(run_program({"run", kTiny, "--ids", "1", "--chat"}), 2, {"--chat", "--ids"});
  expect_failure(run_program({"run", kTiny, "--ids", "512", "--print-ids"}), 2, {"512"});
  expect_failure(run_program({"logits", kTiny, "--ids", "1"}), 2, {"--out"});
  expect_failure(run_program({"tokenize", kTiny}), 2, {"TEXT", "--decode"});
  expect_failure(run_program({"tokenize", kTiny, "--decode", "512"}), 2, {"512"});
  expect_failure(run_program({"synth", "kimi-k9", "/nowhere"}), 2, {"kimi-k3"});
}

TEST(Usage, HelpAndVersionGoToStdout) {
  const Finished version = run_program({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  const std::string lists = read_file(fs::path(SLUICE_SOURCE_DIR) / "CMakeLists.txt");
  ASSERT_TRUE(version.out.starts_with("sluice "));
  const std::string number = version.out.substr(7, version.out.size() - 8);
  EXPECT_NE(lists.find("VERSION " + number + " "), std::string::npos) << version.out;
  EXPECT_EQ(run_program({"--help"}).exit_code, 0);
  for (const char* command : {"info", "run", "chat", "logits", "tokenize", "synth"}) {
    const Finished help = run_program({command, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_EQ(help.err, "");
    EXPECT_NE(help.out.find(fmt::format("  sluice {}", command)), std::string::npos) << help.out;
    std::size_t begin = 0;
    for (std::size_t end; (end = help.out.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      EXPECT_LE(end - begin, 100u) << help.out.substr(begin, end - begin);
    }
  }
}

TEST(ModelFiles, AreMissing) {
  for (const char* command : {"info", "run", "chat", "tokenize"}) {
    std::vector<std::string> arguments = {command, "/no/such/model"};
    if (command == std::string("run")) arguments.insert(arguments.end(), {"--ids", "1"});
    if (command == std::string("tokenize")) arguments.emplace_back("text");
    expect_failure(run_program(arguments), 3, {"/no/such/model"});
  }
}

TEST(ModelFiles, AreTruncated) {
  const ModelCopy copy(kTiny);
  const std::string shard = "model-00002-of-000003.safetensors";
  fs::resize_file(copy / shard, fs::file_size(copy / shard) - 1);
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"run", copy.path(), "--ids", "1", "--max-new", "1"},
           {"info", copy.path()},
           {"chat", copy.path()},
           {"logits", copy.path(), "--ids", "1", "--out", copy / "l.npy"}}) {
    expect_failure(run_program(arguments), 3, {shard});
  }
  EXPECT_FALSE(fs::exists(copy / "l.npy"));
  run_program({"run", copy.path(), "--ids", "1", "--stats-json", copy / "s.json"});
  EXPECT_FALSE(fs::exists(copy / "s.json")) << "nothing was done, so nothing is told";
}

TEST(ModelFiles, AreNotThereYet) {
  const Folder folder;
  fs::copy_file(kTiny + "/config.json", folder / "config.json");
  expect_failure(run_program({"info", folder.path().string()}), 3, {"config.json", "no weights"});
}

TEST(Memory, TooLittleIsRefusedWithTheSmallestThatWorks) {
  const std::vector<std::string> arguments = {"run",      kNano,       "-p", "Alice",
                                              "--greedy", "--max-new", "8",  "--ram"};
  const auto with_ram = [&](const std::string& ram) {
    std::vector<std::string> all = arguments;
    all.push_back(ram);
    return run_program(all);
  };
  const Finished refused = with_ram("1M");
  expect_failure(refused, 4, {"--ram"});
  const std::size_t at = refused.err.find("--ram ");
  ASSERT_NE(at, std::string::npos);
  const int smallest = std::stoi(refused.err.substr(at + 6));
  EXPECT_EQ(with_ram(std::to_string(smallest) + "M").out, with_ram("1G").out);
  expect_failure(with_ram(std::to_string(smallest - 2) + "M"), 4, {"--ram"});
}

TEST(Memory, APromptLongerThanTheContextIsRefusedNotCut) {
  expect_failure(run_program({"run", kTiny, "--ids", "1,2,3,4,5", "--ctx", "4"}), 4,
                 {"5 tokens", "context of 4", "--ctx"});
  std::string ids = "1";
  for (int i = 1; i < 4097; ++i) ids += ",1";  // one more than the model was made for
  expect_failure(run_program({"run", kTiny, "--ids", ids}), 4, {"4097", "4096"});
}

TEST(Drive, AFileThatShrinksWhileInUseIsNamed) {
  const ModelCopy copy(kNano);
#ifdef SLUICE_SANITIZED
  const std::string less_than_all = "48M";
#else
  const std::string less_than_all = "21M";
#endif
  Program program({"chat", copy.path(), "--ram", less_than_all, "--no-thinking", "--max-new", "2",
                   "--ctx", "400"});
  program.write("Hello\n");
  ASSERT_TRUE(program.wait_for_out("\n"));  // it is open, and has answered
  const std::string shard = "model-00001-of-000003.safetensors";
  fs::resize_file(copy / shard, 400000);
  program.write("And now?\n");
  const Finished run = program.finish();
  EXPECT_EQ(run.exit_code, 5) << run.err;
  EXPECT_NE(run.err.find(shard), std::string::npos) << run.err;
}

TEST(Drive, AFullDriveUnderStdoutIsNoSilence) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  const Finished run = run_program(
      {"run", kTiny, "--ids", "1", "--max-new", "1", "--print-ids", "--stats-json", "/dev/full"});
  EXPECT_EQ(run.exit_code, 5);
  EXPECT_NE(run.err.find("/dev/full"), std::string::npos) << run.err;
}

TEST(Number, ABadExpertIsNamedAndNoTokenIsPrinted) {
  const ModelCopy copy(kTiny);
  const Json prompt = prompt_of(golden_of("k3-tiny"), "len7");
  // An expert that the last token uses in layer 3, as the golden says.
  const Json routes = prompt.at("routes").at(2);
  ASSERT_EQ(routes.at("layer"), 3);
  const std::string expert = routes.at("ids").back().at(0).dump();
  copy.overwrite(
      fmt::format("language_model.model.layers.3.block_sparse_moe.experts.{}.w1.weight_scale",
                  expert),
      std::string(4, '\xff'));  // MXFP4's scale byte for NaN
  for (const std::vector<std::string>& output :
       std::vector<std::vector<std::string>>{{}, {"--print-ids"}, {"--json"}}) {
    std::vector<std::string> arguments = {"run", copy.path(), "--ids", joined(prompt.at("tokens"))};
    arguments.insert(arguments.end(), output.begin(), output.end());
    expect_failure(run_program(arguments), 6, {"layer 3", fmt::format("expert {}", expert)});
  }
}

TEST(Number, ABadTrunkIsNamedByItsLayerAndNoFileIsLeft) {
  const ModelCopy copy(kTiny);
  copy.overwrite("language_model.model.layers.5.self_attn.o_proj.weight", "\xc0\x7f");  // bf16 NaN
  expect_failure(run_program({"logits", copy.path(), "--ids", "1,2", "--out", copy / "l.npy"}), 6,
                 {"layer 5"});
  for (const auto& entry : fs::directory_iterator(copy.path())) {
    EXPECT_EQ(entry.path().string().find("l.npy"), std::string::npos) << entry.path();
  }
}

}  // namespace
}  // namespace sluice::cli
