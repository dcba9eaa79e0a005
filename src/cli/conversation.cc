#include "cli/conversation.h"

#include <utility>

#include "base/check.h"

namespace sluice::cli {

using text::ChatFormat;
using text::ChatRequest;
using text::ChatTurn;
using text::Segment;

Conversation::Conversation(const text::Tokenizer& tokenizer, ChatFormat format, ChatStyle style)
    : tokenizer_(&tokenizer), format_(std::move(format)), style_(std::move(style)) {
  const auto kind = format_.kind();
  if (kind == ChatFormat::Kind::kimi_k2 || kind == ChatFormat::Kind::chatml) {
    style_.thinking = false;
  }
}

Result<Conversation> Conversation::create(const text::Tokenizer& tokenizer, ChatStyle style) {
  SLUICE_ASSIGN(ChatFormat format, ChatFormat::detect(tokenizer));
  Conversation conversation(tokenizer, std::move(format), std::move(style));
  SLUICE_ASSIGN(conversation.preface_, conversation.preface(conversation.style_));
  return conversation;
}

Result<std::vector<std::int32_t>> Conversation::preface(const ChatStyle& style) const {
  if (format_.has_template()) return std::vector<std::int32_t>();
  ChatRequest request;
  const ChatTurn system = {"system", style.system};
  if (!style.system.empty()) request.messages = text::messages_of({&system, 1});
  request.thinking = style.thinking;
  request.effort = style.effort;
  request.generation_prompt = false;
  return format_.encode(*tokenizer_, request);
}

/// The template writes the whole conversation; what follows the last answer is new.
Status Conversation::ask_by_template(std::string question) {
  if (history_.empty() && !style_.system.empty()) history_.push_back({"system", style_.system});
  const std::size_t answered = history_.size();
  history_.push_back({"user", std::move(question)});
  ChatRequest request;
  request.messages = text::messages_of(history_);
  request.thinking = style_.thinking;
  request.effort = style_.effort;
  request.now = text::local_now();
  if (turns_ > 0) request.after = answered;
  auto ids = format_.encode(*tokenizer_, request);
  if (!ids) {
    history_.pop_back();
    return tl::unexpected(std::move(ids).error());
  }
  turns_ids_.insert(turns_ids_.end(), ids->begin(), ids->end());
  return {};
}

Status Conversation::ask(std::string question) {
  if (format_.has_template()) return ask_by_template(std::move(question));
  const ChatTurn turn = {"user", std::move(question)};
  ChatRequest request;
  request.messages = text::messages_of({&turn, 1});
  request.thinking = style_.thinking;
  request.effort.clear();  // the preface has it
  request.begins = false;
  SLUICE_ASSIGN(const std::vector<std::int32_t> ids, format_.encode(*tokenizer_, request));
  turns_ids_.insert(turns_ids_.end(), ids.begin(), ids.end());
  return {};
}

void Conversation::withdraw() {
  if (!history_.empty() && turns_ids_.size() > answered_) history_.pop_back();
  turns_ids_.resize(answered_);
}

/// The content of an answer's message. What follows it in the rendered conversation is looked for,
/// so it must not be empty if anything was written.
std::string Conversation::text_for_template(std::span<const std::int32_t> ids) const {
  if (format_.kind() != ChatFormat::Kind::harmony) return tokenizer_->decode(ids);
  // gpt-oss's template writes the channel itself, and refuses a content that has one.
  const text::Answer answer = text::parse_answer(*tokenizer_, format_, is_thinking(), ids);
  if (!answer.text.empty()) return answer.text;
  return answer.reasoning.empty() ? tokenizer_->decode(ids) : answer.reasoning;
}

Status Conversation::answer(std::span<const std::int32_t> ids) {
  if (format_.has_template()) {
    history_.push_back({"assistant", text_for_template(ids)});  // the template ends the turn
  }
  turns_ids_.insert(turns_ids_.end(), ids.begin(), ids.end());
  if (!format_.has_template()) {
    SLUICE_ASSIGN(const std::vector<std::int32_t> rest, closing(stage_after(ids)));
    turns_ids_.insert(turns_ids_.end(), rest.begin(), rest.end());
  }
  answered_ = turns_ids_.size();
  ++turns_;
  return {};
}

/// Follows the markers (SPEC 10) from where ask() began the answer.
Conversation::Stage Conversation::stage_after(std::span<const std::int32_t> ids) const {
  const auto open = tokenizer_->special_id("<|open|>");
  const auto close = tokenizer_->special_id("<|close|>");
  const auto separator = tokenizer_->special_id("<|sep|>");
  Stage stage = style_.thinking ? Stage::thinking : Stage::responding;
  bool in_tag = false;
  bool opens = false;
  std::string tag;
  for (const std::int32_t id : ids) {
    if (id == open || id == close) {
      in_tag = true;
      opens = id == open;
      tag.clear();
    } else if (in_tag && id == separator) {
      in_tag = false;
      if (tag == "think") stage = opens ? Stage::thinking : Stage::thought;
      if (tag == "response") stage = opens ? Stage::responding : Stage::responded;
      if (tag == "message" && !opens) stage = Stage::closed;
    } else if (in_tag) {
      tag += tokenizer_->bytes_of(id);
    }
  }
  return stage;
}

/// The end of an empty answer as the format writes it, as much of it as is missing.
Result<std::vector<std::int32_t>> Conversation::closing(Stage stage) const {
  const ChatTurn empty = {"assistant", ""};
  ChatRequest request;
  request.messages = text::messages_of({&empty, 1});
  request.effort.clear();
  request.begins = false;
  request.generation_prompt = false;
  SLUICE_ASSIGN(std::vector<Segment> whole, format_.render(request));
  // The end of the message; ChatML has a new line behind it.
  std::size_t missing = format_.kind() == ChatFormat::Kind::chatml ? 2 : 1;
  if (format_.kind() == ChatFormat::Kind::kimi_k3) {
    // Before it, from the back: close message, close response, open response, close think.
    constexpr std::size_t kMarker = 3;  // segments: <|open|> or <|close|>, the name, <|sep|>
    missing +=
        kMarker * (static_cast<std::size_t>(Stage::closed) - static_cast<std::size_t>(stage));
  }
  SLUICE_CHECK(missing <= whole.size());
  whole.erase(whole.begin(), whole.end() - static_cast<std::ptrdiff_t>(missing));
  return text::encode_segments(*tokenizer_, whole);
}

Status Conversation::set_effort(const std::string& effort) {
  if (!style_.thinking) return fail(ErrorKind::usage, "this conversation is without thinking");
  if (format_.kind() == ChatFormat::Kind::jinja) {
    return fail(ErrorKind::usage, "this model's chat template is not told the effort");
  }
  if (format_.kind() == ChatFormat::Kind::harmony && turns_ > 0) {
    return fail(ErrorKind::usage,
                "the effort stands at the beginning; /reset the conversation first");
  }
  ChatStyle style = style_;
  style.effort = effort;
  SLUICE_ASSIGN(preface_, preface(style));
  style_ = std::move(style);
  return {};
}

void Conversation::clear() {
  history_.clear();
  turns_ids_.clear();
  answered_ = 0;
  turns_ = 0;
}

std::vector<std::int32_t> Conversation::ids() const {
  std::vector<std::int32_t> ids = preface_;
  ids.insert(ids.end(), turns_ids_.begin(), turns_ids_.end());
  return ids;
}

}  // namespace sluice::cli
