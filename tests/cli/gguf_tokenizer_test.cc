// Tokenizers inside GGUF files: ids are those of the libraries that the models were made with.
#include <gtest/gtest.h>

#include "cli/models.h"
#include "cli/program.h"

namespace sluice::cli {
namespace {

const std::string kFolder = SLUICE_SOURCE_DIR "/tests/golden/tokenizers/";

std::string ids_of_text(const char* kind) {
  return joined(Json::parse(read_file(kFolder + "ids.json")).at(kind)) + "\n";
}

TEST(GgufTokenizer, SentencePieceIdsAreThoseOfSentencePiece) {
  const Finished run = run_program({"tokenize", kFolder + "spm.gguf", "-f", kFolder + "text.txt"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, ids_of_text("spm"));
}

TEST(GgufTokenizer, SentencePieceTextComesBackAndMarkersCannotBeTyped) {
  const std::string model = kFolder + "spm.gguf";
  for (const std::string text :
       {" a  b ", "</s><s><unk>", "<h1>x</h1>", "\u2581\xF0\x9F\x99\x82"}) {
    const Json made = Json::parse(run_program({"tokenize", model, "--json", "--", text}).out);
    std::string expected = text;
    if (text.starts_with("\u2581")) expected.replace(0, 3, " ");  // its sign for a space
    // Behind a token of the model's user the space of a text's begin is put too, as llama.cpp does.
    if (text.starts_with("<h1>")) expected = "<h1> x</h1>";
    EXPECT_EQ(made.at("text"), expected);
    for (const Json& id : made.at("ids")) EXPECT_GT(id, 2) << text;  // <unk>, <s> and </s>
  }
  EXPECT_EQ(run_program({"tokenize", model, "--special", "--", "</s>"}).out, "2\n");
}

TEST(GgufTokenizer, Gemma3IdsAreHuggingFaces) {
  const std::string model = (kRealModels / "gemma-3-270m-q4_k_m.gguf").string();
  if (!fs::exists(model)) GTEST_SKIP() << model << " is not there: scripts/fetch-test-models";
  const Finished run = run_program({"tokenize", model, "-f", kFolder + "text.txt"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, ids_of_text("gemma3"));
}

}  // namespace
}  // namespace sluice::cli
