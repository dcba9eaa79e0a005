// sluice pack and sluice verify: a pack is the model from then on, for every command.
#include <gtest/gtest.h>

#include "cli/models.h"
#include "cli/program.h"

namespace sluice::cli {
namespace {

/// A pack of the model over two folders.
class Packed {
 public:
  explicit Packed(const std::string& model) {
    const Finished done = run_program({"pack", model, "--out", path(), "--out", folder_ / "second",
                                       "--speed", "2,1", "--stripe", "16K"});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    EXPECT_NE(done.out.find("read back and right"), std::string::npos) << done.out;
    EXPECT_EQ(done.err, "");
  }
  std::string path() const { return folder_ / "first"; }
  std::string second() const { return folder_ / "second"; }
  std::string operator/(const std::string& name) const { return folder_ / name; }

 private:
  Folder folder_;
};

void damage(const std::string& path, std::size_t at) {
  std::string bytes = read_file(path);
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
  write_file(path, bytes);
}

TEST(Pack, Promise2EveryCommandTakesItForTheModel) {
  const Packed pack(kNano);
  const auto text = [](const std::string& model) {
    const Finished done = run_program(
        {"run", model, "-p", "The river", "--greedy", "--max-new", "12", "--ram", "64M"});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return done.out;
  };
  EXPECT_EQ(text(pack.path()), text(kNano));
  const Finished traced = run_program({"run", pack.path(), "-p", "The river", "--greedy",
                                       "--max-new", "2", "--trace", pack / "trace.json"});
  EXPECT_EQ(traced.exit_code, 0) << traced.err;
  EXPECT_NE(read_file(pack / "trace.json").find("sluice-pack-2-of-2.data"), std::string::npos);
  const auto logits = [&](const std::string& model, const std::string& name) {
    const Finished done =
        run_program({"logits", model, "--ids", "1,2,3,4,5", "--out", pack / name});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return read_file(pack / name);
  };
  EXPECT_EQ(logits(pack.path(), "a.npy"), logits(kNano, "b.npy"));
  const Finished info = run_program({"info", pack.path(), "--json"});
  ASSERT_EQ(info.exit_code, 0) << info.err;
  const Json facts = Json::parse(info.out);
  EXPECT_EQ(facts.at("files").size(), 2u);
  for (const Json& block : facts.at("blocks")) {
    EXPECT_TRUE(fs::exists(block.at("file").get<std::string>())) << block;
  }
  const Finished plan = run_program({"plan", pack.path(), "--drive", "2", "--json"});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  const Finished tokens = run_program({"tokenize", pack.path(), "The river"});
  EXPECT_EQ(tokens.exit_code, 0) << tokens.err;
}

TEST(Pack, Promise6DamageIsExitThreeInTheRunAndInVerify) {
  const Packed pack(kTiny);
  EXPECT_EQ(run_program({"verify", pack.path()}).exit_code, 0);
  damage(pack.path() + "/sluice-pack-1-of-2.data", 4096 + 300);  // the embedding, the first block
  const Finished verify = run_program({"verify", pack.path()});
  EXPECT_EQ(verify.exit_code, 3);
  EXPECT_NE(verify.out.find("embed_tokens"), std::string::npos) << verify.out;
  EXPECT_NE(verify.out.find("sluice-pack-1-of-2.data"), std::string::npos) << verify.out;
  const Finished json = run_program({"verify", pack.path(), "--json"});
  EXPECT_EQ(json.exit_code, 3);
  EXPECT_EQ(Json::parse(json.out).at("faults"), 1);
  const Finished run =
      run_program({"logits", pack.path(), "--ids", "0,1,2,3", "--out", pack / "l"});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_NE(run.err.find("embed_tokens"), std::string::npos) << run.err;
}

TEST(Pack, Promise6DamagedSmallFilesAreNamedByEveryCommand) {
  const Packed pack(kTiny);
  const std::string file = pack.path() + "/tiktoken.model";
  damage(file, 40);
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"run", pack.path(), "-p", "x"},
                                             {"run", pack.path(), "--ids", "1", "--print-ids"},
                                             {"tokenize", pack.path(), "x"},
                                             {"info", pack.path()},
                                             {"serve", pack.path(), "--port", "0"},
                                             {"verify", pack.path()}}) {
    const Finished done = run_program(arguments);
    EXPECT_EQ(done.exit_code, 3) << arguments[0];
    EXPECT_NE((done.out + done.err).find(file + ": damaged or changed: expected checksum"),
              std::string::npos)
        << done.out << done.err;
  }
  // One fault more: a verify lists them all.
  damage(pack.path() + "/sluice-pack-1-of-2.data", 4096 + 300);
  const Finished verify = run_program({"verify", pack.path()});
  EXPECT_NE(verify.out.find("tiktoken.model"), std::string::npos) << verify.out;
  EXPECT_NE(verify.out.find("embed_tokens"), std::string::npos) << verify.out;
}

TEST(Pack, TakesNoGgufAndSaysSo) {
  const Folder folder;
  const Finished run =
      run_program({"pack", SLUICE_SOURCE_DIR "/tests/golden/gguf-blocks-tiny/checkpoint", "--out",
                   folder / "p"});
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_NE(run.err.find("GGUF"), std::string::npos) << run.err;
  const Finished help = run_program({"pack", "--help"});
  EXPECT_NE(help.out.find("not GGUF"), std::string::npos) << help.out;
}

TEST(Pack, AMovedDriveIsAskedFor) {
  const Packed pack(kTiny);
  fs::rename(pack.second(), pack / "moved");
  const Finished info = run_program({"info", pack.path()});
  EXPECT_EQ(info.exit_code, 3);
  EXPECT_NE(info.err.find("sluice-pack-2-of-2.data"), std::string::npos) << info.err;
  EXPECT_NE(info.err.find("beside the index"), std::string::npos) << info.err;
  const Finished part = run_program({"info", pack / "moved"});
  EXPECT_EQ(part.exit_code, 3);
  EXPECT_EQ(run_program({"info", pack.path(), "--model-dir", pack / "moved"}).exit_code, 0);
  EXPECT_EQ(run_program({"verify", pack.path(), "--model-dir", pack / "moved"}).exit_code, 0);
  EXPECT_NE(part.err.find("a part of a pack"), std::string::npos) << part.err;
  fs::rename(pack / "moved/sluice-pack-2-of-2.data", pack.path() + "/sluice-pack-2-of-2.data");
  EXPECT_EQ(run_program({"verify", pack.path()}).exit_code, 0);
}

TEST(Pack, Promise6OneThatIsNotFinishedIsNoModel) {
  const Folder folder;
  write_file(folder / "sluice-pack.journal", "");
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"run", folder.path().string(), "-p", "x"},
                                             {"info", folder.path().string()},
                                             {"verify", folder.path().string()}}) {
    const Finished done = run_program(arguments);
    EXPECT_EQ(done.exit_code, 3);
    EXPECT_NE((done.out + done.err).find("start the same sluice pack command again"),
              std::string::npos)
        << done.out << done.err;
  }
}

TEST(Pack, ItsFlagsAreChecked) {
  const Folder folder;
  const auto refused = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {"pack", kTiny, "--out", folder / "p"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Finished done = run_program(arguments);
    EXPECT_EQ(done.exit_code, 2) << done.out;
    EXPECT_FALSE(fs::exists(folder / "p")) << flags[0];
  };
  refused({"--speed", "0"});
  refused({"--speed", "1,2"});
  refused({"--speed", "fast"});
  refused({"--stripe", "1000"});
}

TEST(Verify, Promise6CopiesAreComparedByteByByte) {
  const ModelCopy copy(kTiny);
  EXPECT_EQ(run_program({"verify", kTiny, "--model-dir", copy.path()}).exit_code, 0);
  copy.overwrite("language_model.lm_head.weight", "other");
  const Finished verify = run_program({"verify", kTiny, "--model-dir", copy.path()});
  EXPECT_EQ(verify.exit_code, 3);
  EXPECT_NE(verify.out.find(copy.path()), std::string::npos) << verify.out;
  EXPECT_NE(verify.out.find("differs from"), std::string::npos) << verify.out;
}

TEST(Verify, Promise6ACheckpointsBadNumbersAreNamed) {
  const ModelCopy copy(kTiny);
  EXPECT_EQ(run_program({"verify", copy.path()}).exit_code, 0);
  copy.overwrite("language_model.lm_head.weight", std::string_view("\x80\x7F", 2));
  const Finished verify = run_program({"verify", copy.path()});
  EXPECT_EQ(verify.exit_code, 3);
  EXPECT_NE(verify.out.find("lm_head.weight"), std::string::npos) << verify.out;
}

TEST(Verify, Promise6WhatARunWouldNotOpenIsAFault) {
  for (const char* name :
       {"config.json", "tiktoken.model", "tokenizer_config.json", "generation_config.json"}) {
    const ModelCopy copy(kTiny);
    write_file(copy / name, "{\"eos_token_id\": ");
    const Finished run = run_program({"run", copy.path(), "-p", "x", "--max-new", "1"});
    EXPECT_EQ(run.exit_code, 3) << name;
    const Finished verify = run_program({"verify", copy.path()});
    EXPECT_EQ(verify.exit_code, 3) << name;
    EXPECT_NE(verify.out.find(name), std::string::npos) << verify.out;
  }
}

TEST(Info, SaysThatARunWithTextWillNotBegin) {
  const ModelCopy copy(kTiny);
  const Finished sound = run_program({"info", copy.path()});
  EXPECT_EQ(sound.out.find("will not begin"), std::string::npos) << sound.out;
  write_file(copy / "generation_config.json", "{\"eos_token_id\": -5}");
  const Finished text = run_program({"info", copy.path()});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("generation_config.json: eos_token_id -5"), std::string::npos)
      << text.out;
  const Finished json = run_program({"info", copy.path(), "--json"});
  EXPECT_NE(Json::parse(json.out).at("notes").dump().find("eos_token_id -5"), std::string::npos);
}

}  // namespace
}  // namespace sluice::cli
