// sluice tokenize: text to ids and back.
#include <gtest/gtest.h>

#include "cli/models.h"
#include "cli/program.h"

namespace sluice::cli {
namespace {

TEST(Tokenize, RoundTripsTheGoldens) {
  const Json golden = golden_of("k3-nano");
  for (const Json& prompt : golden.at("prompts")) {
    const std::string text = prompt.at("text");
    const std::string ids = joined(prompt.at("tokens"));
    EXPECT_EQ(run_program({"tokenize", kNano, text}).out, ids + "\n");
    EXPECT_EQ(run_program({"tokenize", kNano, "--decode", ids}).out, text);
  }
}

TEST(Tokenize, ReadsFilesAndStdinAndExplainsItself) {
  const std::string text = "N\u00e4chte\n";
  const Json whole = Json::parse(run_program({"tokenize", kNano, "-f", "-", "--json"}, text).out);
  EXPECT_EQ(whole.at("text"), text);
  EXPECT_EQ(whole.at("pieces").size(), whole.at("ids").size());
  const Folder folder;
  write_file(folder / "t.txt", text);
  EXPECT_EQ(run_program({"tokenize", kNano, "-f", folder / "t.txt"}).out,
            joined(whole.at("ids")) + "\n");
}

TEST(Tokenize, MakesSpecialTokensOnlyOnRequest) {
  const std::string text = "a<|open|>b";
  const Json plain = Json::parse(run_program({"tokenize", kNano, text, "--json"}).out);
  const Json special =
      Json::parse(run_program({"tokenize", kNano, text, "--json", "--special"}).out);
  for (const Json& id : plain.at("ids")) EXPECT_LT(id, 3840);
  EXPECT_EQ(special.at("ids").size(), 3u);
  EXPECT_EQ(special.at("ids").at(1), 3843);
}

TEST(Tokenize, TakesAnEmptyTextForNothing) {
  EXPECT_EQ(run_program({"tokenize", kNano, ""}).out, "\n");
}

}  // namespace
}  // namespace sluice::cli
