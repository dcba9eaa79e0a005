// run --chat and chat of a model with a chat template of its own.
#include <gtest/gtest.h>

#include "cli/models.h"
#include "cli/program.h"
#include "server/templated.h"

namespace sluice::cli {
namespace {

TEST(ChatTemplate, AThoughtThatItOpensIsNoAnswer) {
  const Folder folder;
  server::make_templated_nano(folder.path(), server::kTurns + "<think>\n");
  const std::string model = folder.path().string();
  const std::vector<std::string> run = {"run", model,       "--chat", "-p",
                                        "Hi",  "--max-new", "8",      "--greedy"};
  std::vector<std::string> as_json = run;
  as_json.emplace_back("--json");
  const Finished told = run_program(as_json);
  ASSERT_EQ(told.exit_code, 0) << told.err;
  const Json json = Json::parse(told.out);
  EXPECT_EQ(json["text"], "");
  EXPECT_NE(json["reasoning"], "");

  const Finished shown = run_program(run);
  EXPECT_EQ(shown.exit_code, 4) << shown.err;
  EXPECT_EQ(shown.out, "");
  EXPECT_EQ(shown.err.find(json["reasoning"].get<std::string>()), 0u) << shown.err;
  EXPECT_NE(shown.err.find("or answer at once with --no-thinking"), std::string::npos);

  // The template does not ask whether it is wanted.
  std::vector<std::string> hushed = run;
  hushed.emplace_back("--no-thinking");
  const Finished silent = run_program(hushed);
  EXPECT_EQ(silent.exit_code, 4) << silent.err;
  EXPECT_EQ(silent.out, "");
  EXPECT_NE(silent.err.find("no answer yet"), std::string::npos) << silent.err;
  EXPECT_EQ(silent.err.find("--no-thinking"), std::string::npos) << silent.err;

  const Finished chat = run_program({"chat", model, "--greedy", "--max-new", "8"}, "Hi\n");
  EXPECT_EQ(chat.exit_code, 4) << chat.err;
  EXPECT_EQ(chat.out, "");
  EXPECT_NE(chat.err.find(json["reasoning"].get<std::string>()), std::string::npos) << chat.err;
}

TEST(ChatTemplate, ThatWritesNothingIsSaidSo) {
  const Folder folder;
  server::make_templated_nano(folder.path(), "{% if false %}x{% endif %}");
  const std::string model = folder.path().string();
  for (const Finished& refused :
       {run_program({"run", model, "--chat", "-p", "Hi"}), run_program({"chat", model}, "Hi\n")}) {
    EXPECT_EQ(refused.exit_code, 2) << refused.err;
    EXPECT_NE(refused.err.find("the model's chat template writes nothing"), std::string::npos)
        << refused.err;
  }
}

TEST(ChatTemplate, ThatIsNotUnderstoodIsRefusedWithItsLine) {
  const Folder folder;
  server::make_templated_nano(folder.path(), server::kInclude);
  const std::string model = folder.path().string();
  // (It is over before it reads anything, so nothing is written to it.)
  for (const Finished& refused :
       {run_program({"run", model, "--chat", "-p", "Hi"}), run_program({"chat", model})}) {
    EXPECT_EQ(refused.exit_code, 2) << refused.err;
    EXPECT_EQ(refused.out, "");
    for (const char* part : {"the model's chat template: line 2", "include", "--ids"}) {
      EXPECT_NE(refused.err.find(part), std::string::npos) << refused.err;
    }
  }
  const Finished plain = run_program({"run", model, "-p", "It was", "--max-new", "8", "--greedy"});
  EXPECT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_NE(plain.out, "");
}

}  // namespace
}  // namespace sluice::cli
