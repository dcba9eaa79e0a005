// A real model: SmolLM2-135M-Instruct as people have it, in GGUF. It is too large for the
// repository; scripts/fetch-test-models gets it, and without it these tests are skipped.
#include <gtest/gtest.h>

#include "cli/models.h"
#include "cli/program.h"

namespace sluice::cli {
namespace {

class SmolLm2 : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = (kRealModels / "SmolLM2-135M-Instruct.Q4_1.gguf").string();
    if (!fs::exists(model_)) GTEST_SKIP() << model_ << " is not there: scripts/fetch-test-models";
    golden_ = golden_of("smollm2");
  }

  /// Greedy ids up to the first near-tie, where sums in another order may choose otherwise.
  static Json certain(const Json& prompt) {
    Json ids = Json::array();
    for (std::size_t i = 0; i < prompt.at("greedy").size(); ++i) {
      if (prompt.at("margins")[i].get<double>() < 1e-2) break;
      ids.push_back(prompt.at("greedy")[i]);
    }
    return ids;
  }

  std::string model_;
  Json golden_;
};

TEST_F(SmolLm2, TokenIdsAreHuggingFaces) {
  const std::string folder = SLUICE_SOURCE_DIR "/tests/golden/tokenizers/";
  const Finished run = run_program({"tokenize", model_, "-f", folder + "text.txt"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, joined(Json::parse(read_file(folder + "ids.json")).at("smollm2")) + "\n");
}

TEST_F(SmolLm2, GreedyTokensAreThoseOfTransformersOnTheSameWeights) {
  for (const char* kind : {"texts", "chats"}) {
    for (const Json& prompt : golden_.at(kind)) {
      const Json expected = certain(prompt);
      const Finished run =
          run_program({"run", model_, "--ids", joined(prompt.at("ids")), "--greedy", "--max-new",
                       std::to_string(expected.size()), "--print-ids", "--ram", "90M"});
      EXPECT_EQ(run.exit_code, 0) << run.err;
      Json ends = expected;  // the end token ends an answer and is not part of it
      if (!ends.empty() && ends.back() == 2) ends.erase(ends.size() - 1);
      EXPECT_GE(ends.size(), 4u);
      EXPECT_EQ(run.out, joined(ends) + "\n") << prompt.at("text");
    }
  }
}

TEST_F(SmolLm2, AnswersAQuestionInLessMemoryThanItsFile) {
  const Json& prompt = golden_.at("chats")[0];
  const std::vector<std::string> common = {
      "run", model_, "--chat", "-p", prompt.at("text"), "-q", "--max-new", "40", "--greedy"};
  std::vector<std::string> texts;
  for (const auto& flags : std::vector<std::vector<std::string>>{
           {"--ram", "90M"},
           {"--ram", "50M", "--chunk", "5", "--threads", "1"},
           {"--ram", "400M", "--chunk", "64", "--threads", "2"}}) {
    std::vector<std::string> arguments = common;
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Finished run = run_program(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_NE(run.out.find("Paris"), std::string::npos) << run.out;
    texts.push_back(run.out);
#ifndef SLUICE_MEMORY_OF_OTHERS  // a sanitizer's own memory is no part of any budget
    if (flags[1] != "400M") {
      EXPECT_LT(run.peak_rss_bytes, std::stoull(flags[1]) << 20) << flags[1];
      EXPECT_LT(run.peak_rss_bytes, fs::file_size(model_));
    }
#endif
  }
  EXPECT_EQ(texts[1], texts[0]);
  EXPECT_EQ(texts[2], texts[0]);
}

TEST_F(SmolLm2, SaysWhatItIs) {
  const Finished run = run_program({"info", model_});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  for (const char* part : {"llama: hidden size 576", "49,152 token ids", "30 (GQA, dense)",
                           "none: every weight is used by every token"}) {
    EXPECT_NE(run.out.find(part), std::string::npos) << part << "\n" << run.out;
  }
}

}  // namespace
}  // namespace sluice::cli
