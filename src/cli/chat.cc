// sluice chat: a conversation.
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cli/adapter_options.h"
#include "cli/answer_options.h"
#include "cli/answer_text.h"
#include "cli/chat_options.h"
#include "cli/command.h"
#include "cli/compute_options.h"
#include "cli/conversation.h"
#include "cli/interrupts.h"
#include "cli/line_reader.h"
#include "cli/output.h"
#include "cli/output_check.h"
#include "cli/progress.h"
#include "cli/statistics_output.h"
#include "cli/tokens.h"
#include "engine/generate.h"

namespace sluice::cli {
namespace {

constexpr std::size_t kMaxNew = 2048;

constexpr std::string_view kHelp =
    "  /reset         forget the conversation\n"
    "  /effort HOW    how much to think, as --effort says\n"
    "  /stats         where time and memory went so far\n"
    "  /quit          end; so does Ctrl-D\n"
    "  //...          a text that begins with a slash\n"
    "Ctrl-C ends an answer; twice, or at the prompt, it ends the program.\n";

struct ChatOptions {
  ComputeOptions compute;
  AnswerOptions answer;
  ChatStyle style;
};

/// A conversation with an engine, from line to line.
class Dialogue {
 public:
  Dialogue(const ChatOptions& options, const text::Tokenizer& tokenizer, engine::Engine& engine,
           model::SequenceState& sequence, Conversation conversation,
           std::vector<std::int32_t> stop_ids)
      : options_(options),
        tokenizer_(tokenizer),
        engine_(engine),
        sequence_(sequence),
        conversation_(std::move(conversation)),
        stop_ids_(std::move(stop_ids)),
        progress_(options.compute.quiet),
        output_(Output::standard()) {}

  Status run() {
    Interrupts::watch();
    while (!over_ && !output_.is_closed()) {
      if (::isatty(STDIN_FILENO) == 1) say("> ");
      SLUICE_ASSIGN(std::optional<std::string> line, lines_.next());
      if (!line) break;
      if (line->find_first_not_of(" \t") == std::string::npos) continue;
      SLUICE_TRY(take(std::move(*line)));
    }
    // Whoever sits at a terminal has seen it; a script looks at the exit code.
    if (!refusal_ || ::isatty(STDIN_FILENO) == 1) return {};
    return fail(*refusal_, "{} got no answer, for the reason given above",
                refused_ == 1 ? "a question" : fmt::format("{} questions", refused_));
  }

  engine::Statistics statistics() const { return engine_.statistics(counts_); }

 private:
  Status take(std::string line) {
    if (line.starts_with("//")) return answer(line.substr(1));
    if (line.front() != '/') return answer(std::move(line));
    const std::size_t blank = line.find(' ');
    const std::string command = line.substr(0, blank);
    const std::string argument = blank == std::string::npos ? "" : line.substr(blank + 1);
    if (command == "/quit" || command == "/exit") {
      over_ = true;
    } else if (command == "/help") {
      say(kHelp);
    } else if (command == "/stats") {
      say(engine::to_table(statistics()));
    } else if (command == "/reset") {
      conversation_.clear();
      sequence_.reset();
      say("sluice: the conversation is forgotten\n");
    } else if (command == "/effort") {
      change_effort(argument);
    } else {
      say(fmt::format("sluice: {} is no command; /help lists them\n", command.substr(0, 40)));
    }
    return {};
  }

  void change_effort(const std::string& effort) {
    const Status status = conversation_.set_effort(effort);
    if (!status) return say(fmt::format("sluice: /effort: {}\n", status.error().message));
    sequence_.reset();  // the effort stands at the beginning
    say(fmt::format("sluice: thinking effort {} from the next question on\n", effort));
  }

  Status answer(std::string question) {
    if (const Status asked = conversation_.ask(std::move(question)); !asked) {
      say(fmt::format("sluice: {}\n", asked.error().message));
      refuse(asked.error().kind);
      return {};
    }
    const std::vector<std::int32_t> ids = conversation_.ids();
    if (ids.size() > sequence_.context()) {
      conversation_.withdraw();
      say_full(ids.size());
      refuse(ErrorKind::memory);
      return {};
    }
    AnswerView view(output_, progress_, options_.style.thinking && !options_.compute.quiet);
    SLUICE_ASSIGN(AnswerText text,
                  AnswerText::create(tokenizer_, conversation_.parser(), options_.answer.stops,
                                     [&](Channel channel, const std::string& piece) {
                                       view.show(channel, piece);
                                     }));
    std::vector<std::int32_t> written;
    const auto generated = generate(ids, text, view, written);
    Interrupts::watch();  // a Ctrl-C until here was meant for this answer
    text.finish(!generated || engine::is_cut(*generated));
    using engine::FinishReason;
    const bool is_whole = generated && (*generated == FinishReason::end_of_turn ||
                                        *generated == FinishReason::stopped);
    view.finish(is_whole || view.has_response());  // where there is no answer, no line of it
    SLUICE_TRY(view.status());
    return conclude(generated, written, view);
  }

  Result<engine::FinishReason> generate(const std::vector<std::int32_t>& ids, AnswerText& text,
                                        const AnswerView& view,
                                        std::vector<std::int32_t>& written) {
    FeedProgress progress(progress_);
    engine::GenerateOptions options;
    options.max_new = options_.answer.max_new;
    options.sampling = options_.answer.sampling;
    options.sampling.seed += conversation_.turns();  // or each answer would draw the same numbers
    options.stop_ids = stop_ids_;
    options.keep_sequence = true;
    options.drafts = engine_.options().drafts;
    options.before = std::span(ids).first(sequence_.length());
    options.feed.cancellation = &Interrupts::cancellation();
    options.feed.on_progress = [&](const engine::Progress& now) {
      if (written.empty()) progress.show(now);
    };
    const auto on_token = [&](std::int32_t id) {
      written.push_back(id);
      progress_.erase();
      return text.push(id) && !view.is_over();
    };
    const std::span<const std::int32_t> fresh = std::span(ids).subspan(options.before.size());
    SLUICE_ASSIGN(const engine::Generated generated,
                  engine::generate(engine_, sequence_, fresh, options, on_token, counts_));
    return generated.reason;
  }

  /// Keeps what was written in the conversation, and says why it ended if that is not plain.
  Status conclude(const Result<engine::FinishReason>& reason,
                  const std::vector<std::int32_t>& written, const AnswerView& view) {
    if (!reason && reason.error().kind != ErrorKind::interrupted) {
      return tl::unexpected(reason.error());
    }
    if (written.empty() && (!reason || *reason == engine::FinishReason::interrupted)) {
      conversation_.withdraw();
      say("sluice: interrupted before the answer began; the question is forgotten\n");
      return {};
    }
    SLUICE_TRY(conversation_.answer(written));
    if (!reason || *reason == engine::FinishReason::interrupted) {
      say("sluice: interrupted\n");
    } else if (*reason == engine::FinishReason::context) {
      say_full(sequence_.length());
      if (!view.has_response()) refuse(ErrorKind::memory);
    } else if (*reason == engine::FinishReason::length && !view.has_response() &&
               (options_.style.thinking || view.has_reasoning())) {
      say(
          fmt::format("sluice: there is no answer yet: the thinking before it was cut by --max-new "
                      "{}; give more room{}\n",
                      options_.answer.max_new, options_.style.thinking ? kNoThinking : ""));
      refuse(ErrorKind::memory);
    } else if (*reason == engine::FinishReason::length) {
      say(fmt::format("sluice: the answer was cut by --max-new {}\n", options_.answer.max_new));
    }
    return {};
  }

  void refuse(ErrorKind kind) {
    if (!refusal_) refusal_ = kind;
    ++refused_;
  }

  void say_full(std::size_t needed) const {
    say(
        fmt::format("sluice: the context of {} positions is full ({} are needed); /reset begins "
                    "anew, and sluice chat --ctx N gives more room, up to {}\n",
                    sequence_.context(), needed, engine_.shape().max_positions));
  }

  static void say(std::string_view text) { write_to_stderr(text); }

  const ChatOptions& options_;
  const text::Tokenizer& tokenizer_;
  engine::Engine& engine_;
  model::SequenceState& sequence_;
  Conversation conversation_;
  const std::vector<std::int32_t> stop_ids_;
  ProgressLine progress_;
  Output output_;
  LineReader lines_;
  engine::TokenCounts counts_;
  std::optional<ErrorKind> refusal_;  // of the first question that got no answer
  std::size_t refused_ = 0;
  bool over_ = false;
};

class Chat final : public Command {
 public:
  explicit Chat(CLI::App& app) {
    add_chat_options(app, options_.style);
    add_answer_options(app, kMaxNew, options_.answer);
    add_one_adapter(app, options_.compute);
    add_compute_options(app, options_.compute, fmt::format("{}", kDefaultContext));
    add_drafts(app, options_.compute.drafts);
    app.footer(
        "Type a line and read the answer; /help lists what else there is. Earlier turns stay in "
        "the\n"
        "model's state, so only the new one is computed. With questions from a pipe, the exit "
        "code\n"
        "is that of the first one that got no answer.\n\n"
        "Example:\n"
        "  sluice chat /drive/Kimi-K3 --ram 32G --effort low");
  }

  Status execute() override {
    SLUICE_TRY(text::validate(options_.answer.sampling));
    SLUICE_ASSIGN(const std::uint32_t adapter, chosen_adapter(options_.compute));
    SLUICE_TRY(check_outputs(options_.compute));
    SLUICE_ASSIGN(const std::filesystem::path folder, model_folder(options_.compute.model));
    SLUICE_ASSIGN(const text::Tokenizer tokenizer, load_tokenizer(options_.compute.model));
    SLUICE_ASSIGN(Conversation conversation, Conversation::create(tokenizer, options_.style));
    if (const auto stops = text::StopMatcher::create(options_.answer.stops); !stops) {
      return fail(ErrorKind::usage, "--stop: {}", stops.error().message);
    }
    SLUICE_ASSIGN(StatisticsOutput statistics, StatisticsOutput::prepare(options_.compute));
    SLUICE_ASSIGN(const auto engine,
                  engine::Engine::open(engine_options(options_.compute, kDefaultContext)));
    SLUICE_ASSIGN(std::vector<std::int32_t> stop_ids, end_ids(&tokenizer, folder, engine->shape()));
    SLUICE_ASSIGN(const auto sequence, engine->new_sequence(adapter));
    Dialogue dialogue(options_, tokenizer, *engine, *sequence, std::move(conversation),
                      std::move(stop_ids));
    const Status status = dialogue.run();
    const Status noted = statistics.write(dialogue.statistics());
    return status ? noted : status;
  }

 private:
  ChatOptions options_;
};

}  // namespace

Registered add_chat(CLI::App& program) {
  CLI::App* app = program.add_subcommand("chat", "Talk with a model");
  return {app, std::make_unique<Chat>(*app)};
}

}  // namespace sluice::cli
