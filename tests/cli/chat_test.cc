// sluice chat: turns, history, and what Ctrl-C ends.
#include <gtest/gtest.h>

#include "cli/models.h"
#include "cli/program.h"

namespace sluice::cli {
namespace {

const std::vector<std::string> kChat = {"chat",     kNano,       "--no-thinking",
                                        "--greedy", "--max-new", "6"};

std::vector<std::string> with(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(Chat, AnswersLineByLineAndEndsWithItsInput) {
  const Finished chat = run_program(kChat, "Hello\n\nWho are you?");
  EXPECT_EQ(chat.exit_code, 0) << chat.err;
  EXPECT_GE(lines_of(chat.out), 2u) << chat.out;
}

TEST(Chat, FeedsOnlyTheNewTurn) {
  const Folder folder;
  const auto prompt_tokens = [&](const std::string& input) {
    const Finished chat = run_program(with(kChat, {"--stats-json", folder / "s.json"}), input);
    EXPECT_EQ(chat.exit_code, 0) << chat.err;
    return Json::parse(read_file(folder / "s.json")).at("prompt_tokens").get<int>();
  };
  const int once = prompt_tokens("Hello\n");
  const int twice = prompt_tokens("Hello\nHello\n");
  // The second turn brings itself, the end of the first answer and its last, not yet fed token.
  EXPECT_GT(twice, 2 * once);
  EXPECT_LT(twice, 2 * once + 12);
}

TEST(Chat, ForgetsOnRequest) {
  const Finished chat = run_program(kChat, "Hello\n/reset\nHello\n/quit\nnever asked\n");
  EXPECT_EQ(chat.exit_code, 0) << chat.err;
  ASSERT_EQ(chat.out.size() % 2, 0u);
  EXPECT_EQ(chat.out.substr(0, chat.out.size() / 2), chat.out.substr(chat.out.size() / 2));
  const Finished remembering = run_program(kChat, "Hello\nHello\n");
  EXPECT_NE(remembering.out, chat.out);
}

TEST(Chat, HasCommands) {
  const Finished chat = run_program({"chat", kNano, "--max-new", "2"},
                                    "/help\n/stats\n/effort low\n/effort huge\n/what\n");
  EXPECT_EQ(chat.exit_code, 0);
  EXPECT_EQ(chat.out, "");
  for (const char* needle :
       {"/reset", "hit rate", "effort low", "must be low, high or max", "/what is no command"}) {
    EXPECT_NE(chat.err.find(needle), std::string::npos) << needle << " is not in: " << chat.err;
  }
}

TEST(Chat, SaysThatTheContextIsFullAndGoesOn) {
  const std::string question(200, 'x');
  const Finished chat = run_program(with(kChat, {"--ctx", "40"}), question + "\nHi\n");
  EXPECT_NE(chat.err.find("context of 40 positions is full"), std::string::npos) << chat.err;
  EXPECT_NE(chat.out, "") << "the short question has room";
  EXPECT_EQ(chat.exit_code, 4) << "a script must see that a question got no answer";
  EXPECT_NE(chat.err.find("error: a question got no answer"), std::string::npos) << chat.err;
}

TEST(Chat, CountsAQuestionWhoseThinkingWasCutAsNotAnswered) {
  const Finished chat = run_program({"chat", kNano, "--max-new", "8", "-q"}, "hello\nbye\n");
  EXPECT_EQ(chat.exit_code, 4) << chat.err;
  EXPECT_EQ(chat.out.find_first_not_of('\n'), std::string::npos) << chat.out;
  EXPECT_NE(chat.err.find("2 questions got no answer"), std::string::npos) << chat.err;
}

TEST(Chat, EndsWithTheCodeOfTheFirstQuestionThatGotNoAnswer) {
  const Finished chat =
      run_program(with(kChat, {"--ctx", "40"}), "\xff\n" + std::string(200, 'x') + "\nHi\n");
  EXPECT_EQ(chat.exit_code, 2) << chat.err;
  EXPECT_NE(chat.err.find("2 questions got no answer"), std::string::npos) << chat.err;
  EXPECT_NE(chat.out, "");
}

TEST(Chat, CtrlCEndsTheAnswerAndTheConversationGoesOn) {
  Program program({"chat", kNano, "--no-thinking", "--greedy", "--max-new", "3500"});
  program.write("Hello\n");
  ASSERT_TRUE(program.wait_for_out(" "));  // it is answering
  program.interrupt();
  ASSERT_TRUE(program.wait_for_err("sluice: interrupted"));
  program.write("/effort\n/quit\n");
  EXPECT_EQ(program.finish().exit_code, 0);
}

TEST(Chat, CtrlCAtThePromptEndsTheProgram) {
  Program program(kChat);
  program.write("/help\n");
  ASSERT_TRUE(program.wait_for_err("/reset"));
  program.interrupt();
  ASSERT_TRUE(program.wait_for_err("interrupted"));  // before the end of its input can be seen
  const Finished chat = program.finish();
  EXPECT_EQ(chat.exit_code, 130);
}

}  // namespace
}  // namespace sluice::cli
