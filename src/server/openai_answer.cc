#include "server/openai_answer.h"

#include <algorithm>
#include <utility>

#include "text/detokenizer.h"

namespace sluice::server {
namespace {

using text::Json;
using text::TokenLogProbability;

const char* name_of(Finish finish) {
  switch (finish) {
    case Finish::stop:
      return "stop";
    case Finish::length:
      return "length";
    case Finish::tool_calls:
      return "tool_calls";
  }
  return "stop";
}

Json usage_of(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}}};
}

// What an answer tells of one token, roughly.
constexpr std::size_t kTokenBytes = 80;

/// The beginning of an object, to which more is added.
void add_members(std::string& line, const Json& object) {
  line += to_line(object);
  line.pop_back();
}

/// A list, item by item: of a long answer's tokens there is never a tree.
template <class MakeItem>
void add_list(std::string& line, const std::vector<TokenLogProbability>& tokens,
              MakeItem make_item) {
  line += '[';
  for (const TokenLogProbability& token : tokens) {
    if (&token != tokens.data()) line += ',';
    line += to_line(make_item(token));
  }
  line += ']';
}

/// What both shapes share: who answers, and the frame around choices.
class OpenAiWriter : public AnswerWriter {
 public:
  OpenAiWriter(const OpenAiRequest& request, const ServedModel& model, std::string id,
               std::int64_t created)
      : model_(model),
        name_(model.name_of(request.generation.adapter)),
        id_(std::move(id)),
        created_(created),
        choices_(request.generation.choices * request.generation.prompts.size()),
        answers_per_prompt_(request.generation.choices),
        echo_(request.echo),
        include_usage_(request.include_usage),
        has_log_probabilities_(request.generation.log_probabilities.has_value()) {}

  std::string end(const Usage& usage) override {
    std::string text;
    if (include_usage_) {
      Json chunk = frame(true);
      chunk["choices"] = Json::array();
      chunk["usage"] = usage_of(usage);
      text = server_sent(chunk);
    }
    return text + "data: [DONE]\n\n";
  }
  std::string failed(const ApiError& error) override {
    return "data: " + openai_error(error) + "\n\n";
  }
  std::string error(const ApiError& error) const override { return openai_error(error); }

 protected:
  virtual const char* object(bool chunk) const = 0;

  Json frame(bool chunk) const {
    return {{"id", id_}, {"object", object(chunk)}, {"created", created_}, {"model", name_}};
  }

  std::string chunk_of(Json choice) const {
    Json chunk = frame(true);
    chunk["choices"] = Json::array({std::move(choice)});
    if (include_usage_) chunk["usage"] = nullptr;
    return server_sent(chunk);
  }

  /// The whole answer around its choices, each of which `add_choice(line, number)` appends.
  template <class AddChoice>
  std::string line_of(const std::vector<WholeChoice>& choices, const Usage& usage,
                      AddChoice add_choice) const {
    std::size_t told = 0;
    for (const WholeChoice& choice : choices) {
      for (const auto& token : choice.log_probabilities) told += 1 + token.likeliest.size();
    }
    std::string line;
    line.reserve(told * kTokenBytes);  // or the text would be there twice while it grows
    add_members(line, frame(false));
    line += R"(,"choices":[)";
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if (i > 0) line += ',';
      add_choice(line, i);
    }
    return line.append(R"(],"usage":)").append(to_line(usage_of(usage))).append("}");
  }

  std::string token_text(std::int32_t id) const { return model_.tokenizer->piece(id); }

  const ServedModel& model_;
  const std::string name_;
  const std::string id_;
  const std::int64_t created_;
  const std::size_t choices_;
  const std::size_t answers_per_prompt_;
  const std::vector<std::string> echo_;
  const bool include_usage_;
  const bool has_log_probabilities_;
};

class ChatWriter final : public OpenAiWriter {
 public:
  using OpenAiWriter::OpenAiWriter;

  std::string begin() override {
    std::string text;
    for (std::size_t i = 0; i < choices_; ++i) {
      text += chunk_of(choice(i, {{"role", "assistant"}, {"content", ""}}));
    }
    return text;
  }

  std::string event(const TaskEvent& event) override {
    if (event.kind == TaskEvent::Kind::choice_end) {
      Json last = choice(event.choice, Json::object());
      last["finish_reason"] = name_of(event.finish);
      return chunk_of(std::move(last));
    }
    Json delta = delta_of(event.step);
    if (delta.empty() && event.step.log_probabilities.empty()) return {};
    Json next = choice(event.choice, std::move(delta));
    if (!event.step.log_probabilities.empty()) {
      next["logprobs"] = logprobs_of(event.step.log_probabilities);
    }
    return chunk_of(std::move(next));
  }

  std::string whole_line(const std::vector<WholeChoice>& choices, const Usage& usage) override {
    return line_of(choices, usage, [&](std::string& line, std::size_t i) {
      add_members(line, {{"index", i}, {"message", message_of(choices[i])}});
      line += R"(,"logprobs":)";
      if (has_log_probabilities_) {
        line += R"({"content":)";
        add_list(line, choices[i].log_probabilities,
                 [&](const TokenLogProbability& token) { return told_of(token); });
        line += R"(,"refusal":null})";
      } else {
        line += "null";
      }
      line.append(R"(,"finish_reason":")").append(name_of(choices[i].finish)).append("\"}");
    });
  }

 private:
  const char* object(bool chunk) const override {
    return chunk ? "chat.completion.chunk" : "chat.completion";
  }

  static Json choice(std::size_t index, Json delta) {
    return {{"index", index},
            {"delta", std::move(delta)},
            {"logprobs", nullptr},
            {"finish_reason", nullptr}};
  }

  static Json delta_of(const AnswerStep& step) {
    switch (step.kind) {
      case AnswerStep::Kind::text:
        if (step.text.empty()) return Json::object();
        return {{"content", step.text}};
      case AnswerStep::Kind::reasoning:
        return {{"reasoning_content", step.text}};
      case AnswerStep::Kind::call_begin: {
        Json call = {{"index", step.call},
                     {"id", step.call_id},
                     {"type", "function"},
                     {"function", {{"name", step.text}, {"arguments", ""}}}};
        return {{"tool_calls", Json::array({std::move(call)})}};
      }
      case AnswerStep::Kind::call_arguments: {
        Json call = {{"index", step.call}, {"function", {{"arguments", step.text}}}};
        return {{"tool_calls", Json::array({std::move(call)})}};
      }
      case AnswerStep::Kind::call_end:
        break;
    }
    return Json::object();
  }

  static Json message_of(const WholeChoice& choice) {
    Json message = {{"role", "assistant"}, {"content", nullptr}, {"refusal", nullptr}};
    const std::string text = choice.joined(AnswerBlock::Kind::text);
    const std::string reasoning = choice.joined(AnswerBlock::Kind::reasoning);
    if (!reasoning.empty()) message["reasoning_content"] = reasoning;
    Json calls = Json::array();
    for (const AnswerBlock& block : choice.blocks) {
      if (block.kind != AnswerBlock::Kind::call) continue;
      calls.push_back({{"id", block.call_id},
                       {"type", "function"},
                       {"function", {{"name", block.name}, {"arguments", block.text}}}});
    }
    if (!text.empty() || calls.empty()) message["content"] = text;
    if (!calls.empty()) message["tool_calls"] = std::move(calls);
    return message;
  }

  Json token_of(std::int32_t id, float value) const {
    Json bytes = Json::array();
    for (const char byte : model_.tokenizer->bytes_of(id)) {
      bytes.push_back(static_cast<unsigned char>(byte));
    }
    return {{"token", token_text(id)}, {"logprob", value}, {"bytes", std::move(bytes)}};
  }

  Json told_of(const TokenLogProbability& token) const {
    Json told = token_of(token.id, token.value);
    Json& top = told["top_logprobs"] = Json::array();
    for (const auto& [id, value] : token.likeliest) top.push_back(token_of(id, value));
    return told;
  }

  Json logprobs_of(const std::vector<TokenLogProbability>& tokens) const {
    Json content = Json::array();
    for (const TokenLogProbability& token : tokens) content.push_back(told_of(token));
    return {{"content", std::move(content)}, {"refusal", nullptr}};
  }
};

/// Where tokens begin in the text of a choice, in characters: one that goes on with a character of
/// the token before begins where that does.
class Offsets {
 public:
  /// `from_begin`: the first token is the text's first, of which no space is shown that the
  /// tokenizer put there.
  Offsets(const text::Tokenizer& tokenizer, bool from_begin)
      : text_(tokenizer), drops_space_(from_begin && tokenizer.strips_first_space()) {}

  std::size_t next(std::int32_t id) {
    const std::string text = text_.push(id);
    const auto is_first = [](char byte) { return (static_cast<unsigned char>(byte) >> 6) != 2; };
    const auto more = static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_first));
    const bool drops = drops_space_ && text.starts_with(' ');
    if (!text.empty()) drops_space_ = false;
    return std::exchange(characters_, characters_ + more - (drops ? 1 : 0));
  }

 private:
  text::Detokenizer text_;
  bool drops_space_;
  std::size_t characters_ = 0;
};

class CompletionWriter final : public OpenAiWriter {
 public:
  CompletionWriter(const OpenAiRequest& request, const ServedModel& model, std::string id,
                   std::int64_t created)
      : OpenAiWriter(request, model, std::move(id), created), offsets_(choices_, new_offsets()) {}

  std::string begin() override {
    std::string text;
    for (std::size_t i = 0; !echo_.empty() && i < choices_; ++i) {
      text += chunk_of(choice(i, echo_[i / answers_per_prompt_]));
    }
    return text;
  }

  std::string event(const TaskEvent& event) override {
    if (event.kind == TaskEvent::Kind::choice_end) {
      Json last = choice(event.choice, "");
      last["finish_reason"] = name_of(event.finish);
      return chunk_of(std::move(last));
    }
    Json next = choice(event.choice, event.step.text);
    if (!event.step.log_probabilities.empty()) {
      next["logprobs"] = logprobs_of(event.step.log_probabilities, offsets_[event.choice]);
    }
    return chunk_of(std::move(next));
  }

  std::string whole_line(const std::vector<WholeChoice>& choices, const Usage& usage) override {
    return line_of(choices, usage, [&](std::string& line, std::size_t i) {
      std::string text = echo_.empty() ? "" : echo_[i / answers_per_prompt_];
      text += choices[i].joined(AnswerBlock::Kind::text);
      add_members(line, {{"text", std::move(text)}, {"index", i}});
      line += R"(,"logprobs":)";
      if (has_log_probabilities_) {
        add_logprobs(line, choices[i].log_probabilities);
      } else {
        line += "null";
      }
      line.append(R"(,"finish_reason":")").append(name_of(choices[i].finish)).append("\"}");
    });
  }

 private:
  const char* object(bool) const override { return "text_completion"; }

  static Json choice(std::size_t index, std::string text) {
    return {{"text", std::move(text)},
            {"index", index},
            {"logprobs", nullptr},
            {"finish_reason", nullptr}};
  }

  static Json value_of(const TokenLogProbability& token) {
    return token.value != text::kNoLogProbability ? Json(token.value) : Json();
  }

  Json top_of(const TokenLogProbability& token) const {
    if (token.value == text::kNoLogProbability) return {};
    Json top = Json::object();
    for (const auto& [id, value] : token.likeliest) top[token_text(id)] = value;
    return top;
  }

  /// As logprobs_of(), of a whole answer.
  void add_logprobs(std::string& line, const std::vector<TokenLogProbability>& tokens) const {
    line += R"({"tokens":)";
    add_list(line, tokens, [&](const auto& token) { return Json(token_text(token.id)); });
    line += R"(,"token_logprobs":)";
    add_list(line, tokens, [&](const auto& token) { return value_of(token); });
    line += R"(,"top_logprobs":)";
    add_list(line, tokens, [&](const auto& token) { return top_of(token); });
    line += R"(,"text_offset":)";
    Offsets offsets = new_offsets();
    add_list(line, tokens, [&](const auto& token) { return Json(offsets.next(token.id)); });
    line += '}';
  }

  Offsets new_offsets() const { return {*model_.tokenizer, !echo_.empty()}; }

  /// `offsets`: of the choice, behind the tokens before these; move on.
  Json logprobs_of(const std::vector<TokenLogProbability>& tokens, Offsets& offsets) const {
    Json names = Json::array();
    Json values = Json::array();
    Json tops = Json::array();
    Json places = Json::array();
    for (const TokenLogProbability& token : tokens) {
      names.push_back(token_text(token.id));
      values.push_back(value_of(token));
      tops.push_back(top_of(token));
      places.push_back(offsets.next(token.id));
    }
    return {{"tokens", std::move(names)},
            {"token_logprobs", std::move(values)},
            {"top_logprobs", std::move(tops)},
            {"text_offset", std::move(places)}};
  }

  std::vector<Offsets> offsets_;  // by choice
};

}  // namespace

std::unique_ptr<AnswerWriter> chat_writer(const OpenAiRequest& request, const ServedModel& model,
                                          std::string id, std::int64_t created) {
  return std::make_unique<ChatWriter>(request, model, std::move(id), created);
}

std::unique_ptr<AnswerWriter> completion_writer(const OpenAiRequest& request,
                                                const ServedModel& model, std::string id,
                                                std::int64_t created) {
  return std::make_unique<CompletionWriter>(request, model, std::move(id), created);
}

}  // namespace sluice::server
