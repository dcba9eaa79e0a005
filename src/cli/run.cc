// sluice run: continues a text.
#include <filesystem>
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
#include "cli/flags.h"
#include "cli/interrupts.h"
#include "cli/json_text.h"
#include "cli/output.h"
#include "cli/output_check.h"
#include "cli/progress.h"
#include "cli/prompt.h"
#include "cli/statistics_output.h"
#include "cli/tokens.h"
#include "engine/generate.h"
#include "engine/model_text.h"
#include "text/answer_grammar.h"

namespace sluice::cli {
namespace {

constexpr std::size_t kMaxNew = 128;
constexpr std::size_t kMostSchemaBytes = std::size_t{1} << 20;

struct RunOptions {
  ComputeOptions compute;
  PromptOptions prompt;
  AnswerOptions answer;
  ChatStyle style;
  bool chat = false;
  bool print_ids = false;
  bool json = false;
  std::string json_schema;
};

/// Where the ids of an answer go: to stdout as text, as ids, or into an object at the end.
class Answer {
 public:
  Answer(const RunOptions& options, ProgressLine& progress)
      : options_(options),
        progress_(progress),
        output_(Output::standard()),
        view_(output_, progress, !options.compute.quiet && options.style.thinking) {}
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  /// The text of the ids is wanted, too.
  Status decode_with(const text::Tokenizer& tokenizer, std::optional<text::AnswerParser> parser) {
    SLUICE_ASSIGN(text_, AnswerText::create(tokenizer, std::move(parser), options_.answer.stops,
                                            [this](Channel channel, const std::string& piece) {
                                              take(channel, piece);
                                            }));
    return {};
  }

  bool has_response() const { return has_response_; }
  bool has_reasoning() const { return has_reasoning_; }

  bool push(std::int32_t id) {
    progress_.erase();
    const bool wants_more = !text_ || text_->push(id);
    if (options_.print_ids && !options_.json) {
      note(output_.write(fmt::format("{}{}", count_ > 0 ? "," : "", id)));
    }
    ++count_;
    return wants_more && status_ && !view_.is_over();
  }

  /// The end: `reason` is empty if there was an error other than an interruption.
  Status finish(const std::vector<std::int32_t>& ids, std::optional<engine::FinishReason> reason,
                const engine::Statistics& statistics) {
    if (text_) text_->finish(!reason || engine::is_cut(*reason));
    if (!options_.json && !options_.print_ids) view_.finish(false);
    if (!options_.json && options_.print_ids && (count_ > 0 || reason)) note(output_.write("\n"));
    if (options_.json && reason) note(output_.write(to_json(ids, *reason, statistics)));
    SLUICE_TRY(std::move(status_));
    return view_.status();
  }

 private:
  void take(Channel channel, const std::string& piece) {
    (channel == Channel::response ? has_response_ : has_reasoning_) = true;
    if (options_.json) {
      (channel == Channel::response ? response_ : reasoning_) += piece;
    } else if (!options_.print_ids) {
      view_.show(channel, piece);
    }
  }

  std::string to_json(const std::vector<std::int32_t>& ids, engine::FinishReason reason,
                      const engine::Statistics& statistics) const {
    std::string out = "{";
    if (text_) out += "\"text\": " + json_string(response_) + ", ";
    if (options_.chat) out += "\"reasoning\": " + json_string(reasoning_) + ", ";
    return out + fmt::format("\"ids\": [{}], \"finish_reason\": \"{}\", \"stats\": {}}}\n",
                             join_ids(ids), engine::name_of(reason), engine::to_json(statistics));
  }

  void note(Status status) {
    if (status_ && !status) status_ = std::move(status);
  }

  const RunOptions& options_;
  ProgressLine& progress_;
  Output output_;
  AnswerView view_;
  std::optional<AnswerText> text_;
  std::string response_;
  std::string reasoning_;
  bool has_response_ = false;
  bool has_reasoning_ = false;
  std::size_t count_ = 0;
  Status status_;
};

class Run final : public Command {
 public:
  explicit Run(CLI::App& app) {
    add_prompt_options(app, options_.prompt);
    app.add_flag("--print-ids", options_.print_ids,
                 "Print the ids of the new tokens on one line, and no text");
    app.add_flag("--json", options_.json,
                 "Print one JSON object at the end: text, ids, finish_reason, stats; with "
                 "--chat also reasoning")
        ->excludes("--print-ids");
    add_answer_options(app, kMaxNew, options_.answer);
    app.add_option(
           "--json-schema", options_.json_schema,
           "Hold the answer to JSON that fits the schema in FILE; the model is not told of it. "
           "What "
           "--max-new or --ctx cuts off is no whole value: stderr says so, and finish_reason of "
           "--json is length or context")
        ->type_name("FILE")
        ->group("Answer");
    CLI::Option* chat =
        app.add_flag("--chat", options_.chat, "The prompt is a user's turn in the chat format")
            ->group("Chat (with --chat)");
    add_chat_options(app, options_.style);
    for (const char* name : {"--system", "--effort", "--no-thinking"}) {
      app.get_option(name)->needs(chat)->group("Chat (with --chat)");
    }
    add_one_adapter(app, options_.compute);
    add_compute_options(app, options_.compute);
    add_drafts(app, options_.compute.drafts);
    app.footer(
        "The text streams to stdout as it is written. It ends with the model's end token, with\n"
        "--max-new tokens, or before a --stop text. With --chat, what the model thinks before it\n"
        "answers goes to stderr.\n\n"
        "Examples:\n"
        "  sluice run models/k3-nano -p \"It was on a dreary night\" --greedy --ram 21M\n"
        "  sluice run /drive/Kimi-K3 --chat -p \"Why is the sky blue?\" --ram 32G --stats\n"
        "  sluice run models/k3-nano -p \"The city as JSON: \" --json-schema city.json\n"
        "  sluice run /drive/Kimi-K3 --ids 1,2,3 --max-new 8 --print-ids");
  }

  Status execute() override {
    SLUICE_TRY(text::validate(options_.answer.sampling));
    SLUICE_ASSIGN(adapter_, chosen_adapter(options_.compute));
    SLUICE_TRY(check_outputs(options_.compute, {}, {options_.prompt.file.value_or("-")}));
    SLUICE_ASSIGN(std::string prompt, read_prompt(options_.prompt, size_check(options_.compute)));
    if (options_.chat && !options_.prompt.has_text()) {
      return fail(ErrorKind::usage, "--chat needs a text (-p or -f), not --ids");
    }
    SLUICE_ASSIGN(folder_, model_folder(options_.compute.model));
    ProgressLine line(options_.compute.quiet);
    Answer answer(options_, line);
    SLUICE_TRY(prepare(std::move(prompt), answer));
    SLUICE_ASSIGN(StatisticsOutput statistics, StatisticsOutput::prepare(options_.compute));
    const std::size_t context = ids_.size() + options_.answer.max_new;
    engine::EngineOptions opening = engine_options(options_.compute, context);
    opening.prompt = ids_.size();
    if (grammar_.grammar) {
      opening.reserve += text::TokenConstraint::most_bytes(tokenizer_->vocabulary());
    }
    SLUICE_ASSIGN(const auto engine, engine::Engine::open(opening));
    Interrupts::watch();
    return run(*engine, line, answer, statistics);
  }

 private:
  /// Everything that needs the tokenizer, so that the engine finds it in memory when it draws up
  /// its budget.
  Status prepare(std::string prompt, Answer& answer) {
    ids_ = options_.prompt.ids;
    const bool needs_text = options_.prompt.has_text() || !options_.answer.stops.empty() ||
                            !options_.json_schema.empty();
    if (!needs_text) {
      if (options_.print_ids) return {};
      SLUICE_ASSIGN(const bool has_text, engine::has_tokenizer(options_.compute.model));
      if (!has_text) return answer_with_ids();
    }
    SLUICE_ASSIGN(tokenizer_, load_tokenizer(options_.compute.model));
    std::optional<text::AnswerParser> parser;
    std::optional<text::ChatFormat> format;
    text::Thought thought = text::Thought::none;
    if (options_.chat) {
      SLUICE_ASSIGN(Conversation conversation, Conversation::create(*tokenizer_, options_.style));
      SLUICE_TRY(conversation.ask(std::move(prompt)));
      ids_ = conversation.ids();
      parser = conversation.parser();
      format = conversation.format();
      thought = conversation.is_thinking() ? text::Thought::begun
                : options_.style.thinking  ? text::Thought::allowed
                                           : text::Thought::none;
    } else if (options_.prompt.has_text()) {
      SLUICE_ASSIGN(ids_, tokenizer_->encode_prompt(prompt));
    }
    if (!options_.json_schema.empty()) SLUICE_TRY(read_schema(format, thought));
    return answer.decode_with(*tokenizer_, std::move(parser));
  }

  /// Of a model without a tokenizer, ids are all that there is.
  Status answer_with_ids() {
    options_.print_ids = !options_.json;
    log_note("the model has no tokenizer: the answer is told as ids");
    return {};
  }

  Status read_schema(const std::optional<text::ChatFormat>& format, text::Thought thought) {
    if (!options_.answer.stops.empty()) {
      return fail(ErrorKind::usage, "--stop would cut the JSON that --json-schema asks for");
    }
    const std::string& file = options_.json_schema;
    SLUICE_ASSIGN(const std::string text, read_whole(file, "--json-schema", kMostSchemaBytes));
    text::JsonRules rules;
    rules.unique_names = true;
    SLUICE_ASSIGN(const text::Json schema, text::parse_json(text, file, ErrorKind::usage, rules));
    SLUICE_ASSIGN(grammar_, text::json_answer(*tokenizer_, format, thought, schema, file));
    token_index_.emplace(*tokenizer_);
    return {};
  }

  Status run(engine::Engine& engine, ProgressLine& line, Answer& answer,
             StatisticsOutput& statistics) {
    SLUICE_ASSIGN(const auto sequence, engine.new_sequence(adapter_));
    std::vector<std::int32_t> written;
    engine::TokenCounts counts;
    auto generated = generate(engine, *sequence, line, answer, written, counts);
    line.erase();
    std::optional<engine::FinishReason> reason;
    if (generated) {
      reason = generated->reason;
    } else if (generated.error().kind == ErrorKind::interrupted) {
      reason = engine::FinishReason::interrupted;
    }
    const engine::Statistics now = engine.statistics(counts);
    const Status shown = answer.finish(written, reason, now);
    const Status noted = statistics.write(now);
    if (!generated) return tl::unexpected(std::move(generated).error());
    SLUICE_TRY(shown);
    SLUICE_TRY(noted);
    if (reason == engine::FinishReason::interrupted) {
      return fail(ErrorKind::interrupted, "interrupted");
    }
    return explain(generated->reason, engine, answer);
  }

  Result<engine::Generated> generate(engine::Engine& engine, model::SequenceState& sequence,
                                     ProgressLine& line, Answer& answer,
                                     std::vector<std::int32_t>& written,
                                     engine::TokenCounts& counts) {
    FeedProgress progress(line);
    engine::GenerateOptions options;
    options.max_new = options_.answer.max_new;
    options.sampling = options_.answer.sampling;
    SLUICE_ASSIGN(options.stop_ids,
                  end_ids(tokenizer_ ? &*tokenizer_ : nullptr, folder_, engine.shape()));
    std::optional<text::TokenConstraint> constraint;
    if (grammar_.grammar) {
      std::vector<std::int32_t> end_ids = options.stop_ids;
      end_ids.insert(end_ids.end(), grammar_.end_ids.begin(), grammar_.end_ids.end());
      constraint.emplace(grammar_.grammar, *token_index_, end_ids);
      options.constraint = &*constraint;
    }
    options.drafts = engine.options().drafts;
    options.feed.cancellation = &Interrupts::cancellation();
    options.feed.on_progress = [&](const engine::Progress& now) {
      if (written.empty()) progress.show(now);
    };
    const auto on_token = [&](std::int32_t id) {
      written.push_back(id);
      return answer.push(id);
    };
    auto generated = engine::generate(engine, sequence, ids_, options, on_token, counts);
    is_whole_ = !constraint || constraint->may_end();
    return generated;
  }

  /// Says why the answer ended if that is not plain. An answer of nothing is an error, unless ids
  /// or an object tell of it.
  Status explain(engine::FinishReason reason, const engine::Engine& engine,
                 const Answer& answer) const {
    using Reason = engine::FinishReason;
    const bool was_cut = reason == Reason::length || reason == Reason::context;
    const bool may_think = options_.style.thinking || answer.has_reasoning();
    const bool is_thinking = options_.chat && may_think && !answer.has_response();
    if (is_thinking && was_cut && !options_.json && !options_.print_ids) {
      return fail(ErrorKind::memory,
                  "there is no answer yet: the thinking before it was cut by {}; give more room{}",
                  reason == Reason::length ? fmt::format("--max-new {}", options_.answer.max_new)
                                           : fmt::format("the context of {} positions (--ctx)",
                                                         engine.options().context),
                  options_.style.thinking ? kNoThinking : "");
    }
    if (was_cut && !is_whole_) {
      log_warning("the JSON of --json-schema is cut off and no whole value: give {} more room",
                  reason == Reason::length ? fmt::format("--max-new {}", options_.answer.max_new)
                                           : "--ctx");
    }
    if (reason == Reason::context) {
      log_note("the context of {} positions is full; --ctx N gives more room, up to {}",
               engine.options().context, engine.shape().max_positions);
    }
    return {};
  }

  RunOptions options_;
  std::uint32_t adapter_ = 0;
  std::filesystem::path folder_;
  std::optional<text::Tokenizer> tokenizer_;
  std::vector<std::int32_t> ids_;
  text::AnswerGrammar grammar_;
  std::optional<text::TokenIndex> token_index_;
  bool is_whole_ = true;  // the JSON of --json-schema
};

}  // namespace

Registered add_run(CLI::App& program) {
  CLI::App* app = program.add_subcommand("run", "Continue a text, or answer one question");
  return {app, std::make_unique<Run>(*app)};
}

}  // namespace sluice::cli
