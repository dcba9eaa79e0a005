// sluice perplexity: what it says is what the logits of the same tokens say.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "cli/models.h"
#include "cli/program.h"

namespace sluice::cli {
namespace {

const std::vector<std::string> kIds = {"--ids", "970,262,2634,12,400,7,99", "--ram", "128M", "-q"};

Json measured(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"perplexity", kNano, "--json"});
  flags.insert(flags.end(), kIds.begin(), kIds.end());
  const Finished run = run_program(flags);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return Json::parse(run.out);
}

TEST(Perplexity, WindowsAreForetoldEachByItself) {
  const Json whole = measured({"--window", "7"});
  EXPECT_EQ(whole.at("foretold"), 6);
  EXPECT_EQ(measured({"--window", "512"}).at("perplexity"), whole.at("perplexity"));
  const Json parts = measured({"--window", "4"});
  EXPECT_EQ(parts.at("foretold"), 5);  // of 4 tokens three, of 3 two
  EXPECT_EQ(measured({"--window", "4", "--chunk", "2", "--threads", "1"}), parts);
}

TEST(Perplexity, IsThatOfTheLogits) {
  const Folder folder;
  std::vector<std::string> arguments = {"logits", kNano, "--out", folder / "l.npy"};
  arguments.insert(arguments.end(), kIds.begin(), kIds.end());
  ASSERT_EQ(run_program(arguments).exit_code, 0);
  const std::string bytes = read_file(folder / "l.npy");
  const std::vector<int> ids = {970, 262, 2634, 12, 400, 7, 99};
  const std::size_t vocabulary = (bytes.size() - 128) / ids.size() / sizeof(float);
  double sum = 0;
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    std::vector<float> row(vocabulary);
    std::memcpy(row.data(), bytes.data() + 128 + i * vocabulary * sizeof(float),
                vocabulary * sizeof(float));
    double total = 0;
    for (const float logit : row) total += std::exp(static_cast<double>(logit));
    sum += std::log(total) - static_cast<double>(row[static_cast<std::size_t>(ids[i + 1])]);
  }
  EXPECT_NEAR(measured({}).at("perplexity").get<double>() / std::exp(sum / 6), 1, 1e-5);
}

TEST(Perplexity, OneTokenIsRefused) {
  const Finished run = run_program({"perplexity", kNano, "--ids", "970"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("two are the least"), std::string::npos) << run.err;
}

TEST(Perplexity, OfSmolLm2OnABundledTextIsThatOfLlamaCpp) {
#ifdef SLUICE_SANITIZED
  GTEST_SKIP() << "thousands of tokens: too slow with a sanitizer";
#endif
  const std::string model = (kRealModels / "SmolLM2-135M-Instruct.Q4_1.gguf").string();
  if (!fs::exists(model)) GTEST_SKIP() << model << " is not there: scripts/fetch-test-models";
  const Finished run =
      run_program({"perplexity", model, "-f", SLUICE_SOURCE_DIR "/bench/texts/ruth-jonah.txt",
                   "--window", "256", "--json", "-q"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  // bench/llama_cpp.py, of the same weights in F32: llama.cpp rounds what it multiplies other types
  // by.
  constexpr double kLlamaCpp = 22.101229;
  EXPECT_NEAR(Json::parse(run.out).at("perplexity").get<double>() / kLlamaCpp, 1, 0.001);
}

}  // namespace
}  // namespace sluice::cli
