// A server that ends at any moment: what was known and written before is not computed again, and no
// text differs.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "server/answers.h"
#include "server/asked.h"
#include "server/client.h"
#include "server/folder.h"
#include "server/saved_states.h"
#include "server/served.h"
#include "server/task_run.h"

namespace sluice::server {
namespace {

ServerOptions options_for(const std::filesystem::path& folder) {
  ServerOptions options;
  options.host.engine.model = SLUICE_SOURCE_DIR "/models/k3-nano";
  options.host.engine.threads = 1;
  options.host.engine.ram = std::uint64_t{512} << 20;
  options.port = 0;
  options.state_folder = folder;
  options.host.state_write = std::uint64_t{1} << 40;   // as fast as the drive, whatever there is
  options.host.state_disk = std::uint64_t{256} << 20;  // whatever is free there
  return options;
}

TestJson request(const std::string& prompt, std::size_t tokens) {
  return {{"model", "k3-nano"},           {"prompt", prompt},
          {"max_tokens", tokens},         {"seed", 11},
          {"logit_bias", never_ending()}, {"frequency_penalty", 0.2},
          {"temperature", 0.9},           {"logprobs", 2}};
}

TEST(ARestartedServer, GoesOnWithAConversation) {
  const Folder folder;
  TestJson first;
  TestJson next;
  {
    const auto server = std::move(*Server::start(options_for(folder.path() / "a")));
    first = post(server->port(), "/v1/completions", request(kPrompt, 200)).json();
    const std::string so_far = kPrompt + first["choices"][0]["text"].get<std::string>();
    // The prompt's state comes to the disk, and is counted.
    while (get(server->port(), "/v1/status").json()["memory"]["saved_written_bytes"] == 0) continue;
    next = request(so_far + " And then", 20);
  }
  const auto server = std::move(*Server::start(options_for(folder.path() / "a")));
  const TestJson known = post(server->port(), "/v1/completions", next).json();
  const auto fresh = std::move(*Server::start(options_for(folder.path() / "b")));
  const TestJson computed = post(fresh->port(), "/v1/completions", next).json();
  EXPECT_EQ(known["choices"], computed["choices"]);
  EXPECT_EQ(cached(computed), 0u);
  // Where the text's end and what follows it become one token, the answer's end is another one.
  EXPECT_GE(cached(known), first["usage"]["prompt_tokens"].get<std::size_t>());
}

std::size_t answers_in(const std::filesystem::path& states) {
  std::size_t count = 0;
  for (const auto& each : std::filesystem::directory_iterator(states)) {
    const std::string name = each.path().filename();
    count += name.find("-answer-") != std::string::npos && name.ends_with(".state") ? 1 : 0;
  }
  return count;
}

/// What a crash at this moment would leave; files come and go meanwhile.
void copy_states(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::filesystem::create_directories(to);
  for (const auto& each : std::filesystem::directory_iterator(from)) {
    std::error_code gone;
    std::filesystem::copy(each.path(), to / each.path().filename(), gone);
  }
}

TEST(ARestartedServer, AnswersTheSameWhenALongAnswerIsAskedForAgain) {
  constexpr std::size_t kTokens = 300;
  const Folder folder;
  TestJson body = request(kPrompt, kTokens);
  body["n"] = 2;
  TestJson expected;
  {
    const auto server = std::move(*Server::start(options_for(folder.path() / "a")));
    Client client(server->port());
    client.write(wire("POST", "/v1/completions", body.dump()));
    // Whatever there is by then: of a drive that is slow or a client that is, none.
    const std::filesystem::path states = folder.path() / "a" / "states";
    while (answers_in(states) < 2 && !client.is_closed()) continue;
    copy_states(states, folder.path() / "b" / "states");
    ASSERT_TRUE(client.read_to_end());
    expected = parse_answer(client.received()).json();
  }
  const auto server = std::move(*Server::start(options_for(folder.path() / "b")));
  const TestJson found = post(server->port(), "/v1/completions", body).json();
  EXPECT_EQ(found["choices"], expected["choices"]);
  EXPECT_EQ(found["usage"]["completion_tokens"], 2 * kTokens);
  const std::string states = folder.path() / "b" / "states";
  for (const auto& each : std::filesystem::directory_iterator(states)) {
    EXPECT_EQ(each.path().string().find("answer"), std::string::npos) << "it has arrived";
  }
}

constexpr std::size_t kTaskTokens = 200;

/// What a task gave, and what it took.
struct Ran {
  std::vector<std::string> texts;
  std::vector<float> log_probabilities;
  std::size_t computed = 0;  // tokens whose time since the one before was measured
};

/// Two answers, with these states on the disk. `look` is called after each layer, when all that was
/// to be written is.
Ran run_long_task(const std::filesystem::path& states,
                  const std::function<void(const WorkerStatus&)>& look) {
  engine::EngineOptions options = saving_options(512);
  options.identify = true;
  const auto engine = std::move(*engine::Engine::open(options));
  const auto conversations = std::move(
      *Conversations::open(*engine, {16 * kMiB, states, 64 * kMiB, engine->shape().vocabulary, 1}));
  Generation plan;
  plan.prompts = {encode(kPrompt)};
  plan.choices = 2;
  plan.max_new = kTaskTokens;
  plan.sampling.seed = 11;
  plan.log_probabilities = 2;
  plan.key = 7;
  Task task("task", "client", plan);
  const std::vector<std::int32_t> stop_ids;
  Metrics metrics;
  StatusBoard board(engine->shape().layers);
  engine::TokenCounts counts;
  const text::TokenIndex words(tokenizer());
  const Workplace place = {*engine,
                           tokenizer(),
                           stop_ids,
                           *conversations,
                           metrics,
                           board,
                           counts,
                           [&]() -> const text::TokenIndex& { return words; },
                           [&] {
                             conversations->flush();
                             look(board.status());
                           }};
  const Status status = run_task(place, task);
  EXPECT_TRUE(status) << status.error().message;
  AnswerCollector collector(plan);
  while (const auto event = task.next(std::chrono::milliseconds(0))) collector.add(*event);
  Ran ran;
  for (const WholeChoice& choice : collector.choices()) {
    ran.texts.push_back(choice.joined(AnswerBlock::Kind::text));
    for (const auto& token : choice.log_probabilities) {
      ran.log_probabilities.push_back(token.value);
    }
  }
  const std::string text = metrics.text({}, {});
  const std::string name = "\nsluice_inter_token_seconds_count ";
  ran.computed = std::stoul(text.substr(text.find(name) + name.size()));
  return ran;
}

TEST(ARestartedProcess, ComputesNothingAgainOfAnAnswerThatWasWritten) {
  const Folder folder;
  const std::filesystem::path before = folder.path() / "a", after = folder.path() / "b";
  bool is_copied = false;
  const Ran whole = run_long_task(before, [&](const WorkerStatus& now) {
    if (is_copied || now.choice != 1 || now.generated < 80) return;
    copy_states(before, after);
    is_copied = true;
  });
  EXPECT_GT(whole.computed, kTaskTokens);
  ASSERT_TRUE(is_copied);
  ASSERT_EQ(answers_in(after), 2u);  // the first is whole
  const Ran again = run_long_task(after, [](const WorkerStatus&) {});
  EXPECT_EQ(again.texts, whole.texts);
  EXPECT_EQ(again.log_probabilities, whole.log_probabilities);
  EXPECT_FALSE(whole.log_probabilities.empty());
  EXPECT_LE(again.computed, kTaskTokens - 64) << "the rest was known";
  EXPECT_GT(again.computed, 0u);
}

}  // namespace
}  // namespace sluice::server
