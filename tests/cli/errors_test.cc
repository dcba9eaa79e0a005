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
      {"--top-p", "-0.1"},
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
      {"--trace", "/no/such/folder/t.json"},
      {"--ring", "lots"},
      {"--lookahead", "0"},
      {"--lookahead", "many"},
      {"--learn", "maybe"},
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

TEST(Usage, SpeaksOfTheFlagAndNotOfTheParser) {
  const std::vector<std::string> run = {"run", kTiny, "-p", "x"};
  const auto complaint = [&](std::vector<std::string> more) {
    more.insert(more.begin(), run.begin(), run.end());
    const Finished finished = run_program(more);
    EXPECT_EQ(finished.exit_code, 2);
    return finished.err;
  };
  const std::string end = "; see sluice run --help\n";
  EXPECT_EQ(complaint({"--ctx", "5", "--ctx", "6"}),
            "sluice: error: --ctx: is given 2 times; give it once" + end);
  EXPECT_EQ(complaint({"--ctx"}), "sluice: error: --ctx: needs a value, N" + end);
  EXPECT_EQ(complaint({"--chat", "--effort", "huge"}),
            "sluice: error: --effort: expected low, medium, high or max, found \"huge\"" + end);
  EXPECT_EQ(complaint({"--chat", "--effort", "low", "--no-thinking"}),
            "sluice: error: --effort excludes --no-thinking" + end);
  EXPECT_EQ(run_program({"perplexity", kTiny, "-p", "x", "--window", "1"}).err,
            "sluice: error: --window: '1' is not a whole number from 2 to 1048576; see sluice "
            "perplexity --help\n");
  EXPECT_EQ(run_program({"perplexity", kTiny, "--ids", "1"}).err,
            "sluice: error: the text has one token; two are the least that can be foretold\n");
}

TEST(Usage, SaysWhatAValueShouldBe) {
  const auto complaint = [](const std::string& flag, const std::string& value) {
    return run_program({"run", kTiny, "-p", "x", flag, value}).err;
  };
  EXPECT_EQ(complaint("--top-p", "2"),
            "sluice: error: --top-p: '2' is not a number from 0 to 1; see sluice run --help\n");
  EXPECT_EQ(complaint("--stop", ""), "sluice: error: --stop: a stop text is empty\n");
}

TEST(Usage, ATextThatBeginsWithADashIsNoFlag) {
  const std::string dashed = "-hello";
  expect_failure(run_program({"tokenize", kNano, dashed}), 2,
                 {"there is no flag -hello", "comes after --"});
  expect_failure(run_program({"info", kNano, dashed}), 2, {"there is no flag -hello"});
  for (const std::string& text : {dashed, std::string("-1 is less than 0"), std::string("--"),
                                  std::string("--json"), std::string("-h")}) {
    const Finished ids = run_program({"tokenize", kNano, "--", text});
    EXPECT_EQ(ids.exit_code, 0) << ids.err;
    EXPECT_EQ(ids.out, run_program({"tokenize", kNano, "-f", "-"}, text).out) << text;
  }
  const Finished run = run_program({"run", kNano, "-p", dashed, "--max-new", "0"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

TEST(Usage, HelpAndVersionGoToStdout) {
  const Finished version = run_program({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  const std::string lists = read_file(fs::path(SLUICE_SOURCE_DIR) / "CMakeLists.txt");
  ASSERT_TRUE(version.out.starts_with("sluice "));
  const std::string number = version.out.substr(7, version.out.size() - 8);
  EXPECT_NE(lists.find("VERSION " + number + " "), std::string::npos) << version.out;
  const std::string overview = run_program({"--help"}).out;
  EXPECT_NE(overview, "");
  EXPECT_EQ(run_program({"help"}).out, overview);
  EXPECT_EQ(overview.find("Exit codes:"), overview.rfind("Exit codes:"));
  const Finished unknown = run_program({"help", "nosuch"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("there is no command 'nosuch'"), std::string::npos) << unknown.err;
  EXPECT_EQ(run_program({"help", "run"}).out, run_program({"run", "--help"}).out);
  EXPECT_NE(run_program({"batch", "--help"}).out.find("[OPTIONS] --model MODEL --out FILE FILE"),
            std::string::npos);
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
  expect_failure(run_program({"info", folder.path().string()}), 3,
                 {"config.json", "no weights", "sluice plan"});
  expect_failure(run_program({"info", folder / "config.json"}), 3,
                 {"give the model's folder", "sluice plan " + (folder / "config.json")});
}

/// Every command that takes a model, with this one.
std::vector<std::vector<std::string>> commands_with(const std::string& model) {
  return {{"info", model},
          {"run", model, "-p", "x", "--max-new", "1"},
          {"run", model, "--ids", "1", "--print-ids"},
          {"chat", model},
          {"logits", model, "-p", "x", "--out", "/tmp/never-written.npy"},
          {"tokenize", model, "x"}};
}

TEST(ModelFiles, AreNoModelAtAll) {
  const Folder empty;
  for (const auto& arguments : commands_with(empty.path().string())) {
    SCOPED_TRACE(arguments[0]);
    expect_failure(run_program(arguments), 3,
                   {empty.path().string() + ": no model in this folder: expected "
                                            "model.safetensors.index.json and its shards"});
  }
  for (const auto& arguments : commands_with("/dev/null")) {
    SCOPED_TRACE(arguments[0]);
    expect_failure(run_program(arguments), 3, {"/dev/null: this is no model", "folder", "index"});
  }
  write_file(empty / "notes.txt", "nothing but a text that somebody wrote");
  for (const auto& arguments : commands_with(empty / "notes.txt")) {
    SCOPED_TRACE(arguments[0]);
    expect_failure(run_program(arguments), 3, {"notes.txt", "no safetensors file"});
  }
}

/// k3-tiny as a Hugging Face cache keeps it: names that link to blobs.
void write_cache(const Folder& folder) {
  fs::create_directories(folder / "blobs");
  fs::create_directories(folder / "refs");
  fs::create_directories(folder / "snapshots/abc");
  write_file(folder / "refs/main", "abc");
  for (const auto& entry : fs::directory_iterator(kTiny)) {
    const std::string name = entry.path().filename().string();
    fs::copy_file(entry.path(), folder / ("blobs/blob-of-" + name));
    fs::create_symlink("../../blobs/blob-of-" + name, folder / ("snapshots/abc/" + name));
  }
}

TEST(ModelFiles, InACacheOpenByTheFolderOfTheModelOrOfTheSnapshot) {
  const Folder cache;
  write_cache(cache);
  for (const std::string& model : {cache.path().string(), cache / "snapshots/abc"}) {
    const Finished run = run_program({"run", model, "-p", "x", "--max-new", "1"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
  }
}

TEST(ModelFiles, WhoseBlobIsMissingInACacheAreNamed) {
  for (const std::string& name :
       {std::string("model-00002-of-000003.safetensors"), std::string("tokenizer_config.json"),
        std::string("tiktoken.model"), std::string("generation_config.json")}) {
    const Folder cache;
    write_cache(cache);
    if (!fs::exists(cache / ("blobs/blob-of-" + name))) {
      fs::create_symlink("../../blobs/none", cache / ("snapshots/abc/" + name));
    }
    fs::remove(cache / ("blobs/blob-of-" + name));
    for (const std::string& model : {cache.path().string(), cache / "snapshots/abc"}) {
      SCOPED_TRACE(model + " without " + name);
      expect_failure(run_program({"run", model, "-p", "x", "--max-new", "1"}), 3,
                     {name, "the symbolic link leads to no file"});
    }
  }
}

TEST(ModelFiles, ShardsAreBlamedBeforeTheTokenizerThatIsMissingToo) {
  const ModelCopy copy(kTiny);
  fs::remove(copy / "tokenizer_config.json");
  fs::remove(copy / "model-00002-of-000003.safetensors");
  expect_failure(run_program({"run", copy.path(), "-p", "x"}), 3,
                 {"model-00002-of-000003.safetensors", "no such file"});
}

TEST(ModelFiles, WithoutAnIndexOpenWithANote) {
  const ModelCopy copy(kTiny);
  fs::remove(copy / "model.safetensors.index.json");
  const std::vector<std::string> arguments = {"run",       copy.path(), "--ids",      "1",
                                              "--max-new", "1",         "--print-ids"};
  const Finished run = run_program(arguments);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.err.find("no model.safetensors.index.json"), std::string::npos) << run.err;
  std::vector<std::string> quiet = arguments;
  quiet.emplace_back("-q");
  EXPECT_EQ(run_program(quiet).err, "");
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

TEST(Memory, APromptThatNeverFitsIsRefusedBeforeMoreMemoryIsAskedFor) {
  std::string ids = "1";
  for (int i = 1; i < 4097; ++i) ids += ",1";
  const Finished run = run_program({"run", kNano, "--ids", ids, "--ram", "2M"});
  expect_failure(run, 4, {"4097 tokens", "at most 4096 positions"});
  EXPECT_EQ(run.err.find("--ram"), std::string::npos) << run.err;
}

/// A file of this many bytes that this process need not hold.
void write_long(const std::string& path, std::uintmax_t bytes) {
  write_file(path, "");
  fs::resize_file(path, bytes);
}

TEST(Memory, ALongTextIsRefusedByItsSizeAlone) {
  const Folder folder;
  const std::string text = folder / "text";
  std::vector<Finished> runs;
  const auto refused = [&](const std::vector<std::string>& arguments, int code,
                           const std::vector<std::string>& needles) {
    runs.push_back(run_program(arguments));
    expect_failure(runs.back(), code, needles);
  };
  write_long(text, 60'000'000);
  refused({"run", kNano, "-f", text, "--ctx", "100", "--ram", "21M"}, 4,
          {"57.2 MiB of text are at least", "the context of 100 (--ctx)"});
  refused({"run", kNano, "-f", text, "--ram", "64M"}, 4, {"at most 4096 positions"});
  refused({"logits", kNano, "-f", text, "--out", folder / "l.npy"}, 4, {"at most 4096 positions"});
  refused({"perplexity", kNano, "-f", text, "--ram", "40M"}, 4, {"--ram 40.0 MiB"});
  write_long(text, 100'000'000);
  refused({"run", kNano, "-f", text}, 2, {"longer than 64.0 MiB"});
  refused({"tokenize", kNano, "-f", text}, 2, {"longer than 64.0 MiB"});
  runs.push_back(run_program({"run", kNano, "-f", "-"}, std::string(2'000'000, 'a')));
  expect_failure(runs.back(), 4, {"at most 4096 positions"});
#ifndef SLUICE_MEMORY_OF_OTHERS
  for (const Finished& run : runs) EXPECT_LT(run.peak_rss_bytes, 40u << 20) << run.err;
#endif
}

TEST(Memory, TheRefusalSaysWhatItWasAskedFor) {
  const std::vector<std::string> arguments = {"run", kNano, "--ids", "1", "--print-ids"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), arguments.begin(), arguments.end());
    return run_program(more);
  };
  expect_failure(with({"--ram", "2M"}), 4,
                 {"2.00 MiB of memory is too small", "--ctx 129", "rounded up to whole MiB"});
  expect_failure(with({"--ram", "2M", "--chunk", "64", "--max-new", "0"}), 4,
                 {"--ctx 1 and --chunk 64"});
  expect_failure(with({"--ram", "2M", "--chunk", "512", "--ctx", "4096"}), 4,
                 {"--ctx 4096 and --chunk 512", "without --chunk"});
  expect_failure(with({"--ram", "21"}), 4, {"did you mean 21M or 21G?"});
  const Finished kilobytes = with({"--ram", "21KB"});
  expect_failure(kilobytes, 4, {"21.0 KiB of memory is too small"});
  EXPECT_EQ(kilobytes.err.find("did you mean"), std::string::npos) << kilobytes.err;
}

TEST(Usage, AContextThatTheModelWasNotMadeForIsRefused) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"run", kTiny, "--ids", "1", "--print-ids"}, {"chat", kTiny}, {"info", kTiny}}) {
    std::vector<std::string> with_context = arguments;
    with_context.insert(with_context.end(), {"--ctx", "4097"});
    expect_failure(run_program(with_context), 2, {"--ctx 4097", "at most 4096 positions"});
  }
  const std::string config = SLUICE_SOURCE_DIR "/tests/golden/k3-config.json";
  expect_failure(run_program({"plan", config, "--profile", "laptop-16", "--ctx", "1048577"}), 2,
                 {"--ctx 1048577", "at most 1048576 positions"});
}

TEST(Memory, MoreThanTheMachineHasIsSaid) {
  const Finished run =
      run_program({"run", kTiny, "--ids", "1,2", "--max-new", "1", "--greedy", "--ram", "100T"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.err.find("--ram 100 TiB: more than"), std::string::npos) << run.err;
}

TEST(Memory, APromptLongerThanTheContextIsRefusedNotCut) {
  expect_failure(run_program({"run", kTiny, "--ids", "1,2,3,4,5", "--ctx", "4"}), 4,
                 {"5 tokens", "context of 4", "--ctx"});
  std::string ids = "1";
  for (int i = 1; i < 4097; ++i) ids += ",1";  // one more than the model was made for
  const Finished run = run_program({"run", kTiny, "--ids", ids});
  expect_failure(run, 4, {"4097 tokens", "at most 4096 positions"});
  EXPECT_EQ(run.err.find("--ctx 4097"), std::string::npos) << "which would be refused: " << run.err;
}

TEST(Drive, AFileThatShrinksWhileInUseIsNamed) {
  const ModelCopy copy(kNano);
#if defined(SLUICE_MEMORY_OF_OTHERS) && !defined(SLUICE_SANITIZED)
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

TEST(Drive, AFullOneIsNoUsageError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  for (const char* flag : {"--trace", "--stats-json"}) {
    expect_failure(run_program({"run", kTiny, "--ids", "1", "--max-new", "0", flag, "/dev/full"}),
                   5, {"/dev/full"});
  }
}

TEST(Drive, IsNotToBlameForAFolderThatCannotBeMade) {
  const Folder folder;
  write_file(folder / "file", "");
  for (const char* name : {"file", "file/below"}) {
    const std::string place = folder / name;
    EXPECT_EQ(run_program({"pack", kTiny, "--out", place}).exit_code, 2);
    EXPECT_EQ(run_program({"synth", "kimi-k3", place, "--layers", "2"}).exit_code, 2);
    EXPECT_EQ(run_program({"serve", kTiny, "--port", "0", "--state-dir", place}).exit_code, 2);
  }
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

TEST(Errors, KeepTheirCodeWhereNobodyReadsThem) {
  const Folder folder;
  const std::vector<std::pair<std::vector<std::string>, int>> commands = {
      {{"run", kTiny}, 2},
      {{"run", kTiny, "--frobnicate"}, 2},
      {{"run", "/no/such/model", "--ids", "1"}, 3},
      {{"run", kTiny, "--ids", "1", "--ram", "1M"}, 4},
      {{"run", kTiny, "--ids", "1", "--max-new", "1", "--stats", "--json"}, 0},
      {{"pack", kTiny, "--out", folder / "pack"}, 0},
      {{"pack", kTiny, "--out", folder / "pack"}, 0},  // which is there by now
      {{"--help"}, 0},
  };
  for (const auto errors : {Program::Errors::full, Program::Errors::closed}) {
    for (const auto& [arguments, code] : commands) {
      EXPECT_EQ(run_program(arguments, "", errors).exit_code, code) << arguments[0];
    }
  }
}

TEST(Errors, AnEmptyNameIsNoModel) {
  const std::vector<std::vector<std::string>> commands = {{"info", ""},
                                                          {"run", "", "-p", "x"},
                                                          {"verify", ""},
                                                          {"plan", ""},
                                                          {"pack", "", "--out", "x"}};
  for (const auto& arguments : commands) {
    expect_failure(run_program(arguments), 2, {"MODEL", "the name is empty"});
  }
  expect_failure(run_program({"batch", "in", "--model", "", "--out", "out"}), 2,
                 {"--model", "the name is empty"});
}

TEST(Errors, OneFormOfOutputAtATime) {
  expect_failure(run_program({"run", kTiny, "--ids", "1", "--print-ids", "--json"}), 2,
                 {"--json", "--print-ids"});
}

TEST(Errors, AHostThatIsNoAddressIsSaidFirst) {
  expect_failure(run_program({"serve", kTiny, "--host", "foo"}), 2,
                 {"--host foo", "is not an address"});
}

}  // namespace
}  // namespace sluice::cli
