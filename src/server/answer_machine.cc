#include "server/answer_machine.h"

#include <algorithm>
#include <utility>

namespace sluice::server {

using engine::FinishReason;
using text::AnswerEvent;

Result<AnswerMachine> AnswerMachine::create(const text::Tokenizer& tokenizer, AnswerForm form) {
  SLUICE_ASSIGN(text::StopMatcher matcher, text::StopMatcher::create(form.stops));
  return AnswerMachine(tokenizer, std::move(form), std::move(matcher));
}

AnswerMachine::AnswerMachine(const text::Tokenizer& tokenizer, AnswerForm form,
                             text::StopMatcher matcher)
    : tokenizer_(&tokenizer),
      form_(std::move(form)),
      matcher_(std::move(matcher)),
      characters_(tokenizer) {
  if (form_.chat) parser_.emplace(tokenizer, *form_.chat, form_.thinking);
}

bool AnswerMachine::push(std::int32_t id,
                         std::optional<text::TokenLogProbability> log_probability) {
  if (over_) return false;
  const bool is_text = !parser_ || (parser_->in_answer() && !tokenizer_->is_special(id));
  if (parser_ && parser_->in_reasoning()) ++reasoning_tokens_;
  if (is_text && log_probability) pending_.push_back({read_, std::move(*log_probability)});
  if (parser_) {
    for (const AnswerEvent& event : parser_->push(id)) on_event(event);
    if (parser_->ended()) end_answer();
  } else {
    on_text(characters_.push(id));
  }
  release_log_probabilities(false);
  return !over_;
}

Finish AnswerMachine::finish(FinishReason reason) {
  const bool cut = reason == FinishReason::length || reason == FinishReason::context;
  if (!over_) {
    if (parser_) {
      for (const AnswerEvent& event : parser_->finish(cut)) on_event(event);
    } else {
      on_text(characters_.finish());
    }
    end_answer();
  }
  if (cut) return Finish::length;
  return calls_ > 0 ? Finish::tool_calls : Finish::stop;
}

void AnswerMachine::on_event(const AnswerEvent& event) {
  if (over_) return;
  using Kind = AnswerEvent::Kind;
  switch (event.kind) {
    case Kind::reasoning:
      end_text();
      if (!event.text.empty()) steps_.push_back({AnswerStep::Kind::reasoning, event.text});
      return;
    case Kind::answer:
      return on_text(event.text);
    case Kind::call_begin:
    case Kind::call_arguments:
    case Kind::call_end:
      return on_call(event);
    case Kind::end:
      return;
  }
}

void AnswerMachine::on_call(const AnswerEvent& event) {
  using Kind = AnswerEvent::Kind;
  if (!form_.tools) {  // nobody could answer it: it is shown as it is
    return on_text(event.kind == Kind::call_begin ? "\n" + event.text + " "
                   : event.kind == Kind::call_end ? "\n"
                                                  : event.text);
  }
  end_text();
  AnswerStep step = {AnswerStep::Kind::call_arguments, event.text, event.call};
  if (event.kind == Kind::call_begin) {
    step.kind = AnswerStep::Kind::call_begin;
    step.call_id = fmt::format("{}{}", form_.call_ids, event.call);
    ++calls_;
  } else if (event.kind == Kind::call_end) {
    step.kind = AnswerStep::Kind::call_end;
    over_ = form_.one_call;
  } else if (event.text.empty()) {
    return;
  }
  steps_.push_back(std::move(step));
}

void AnswerMachine::on_text(std::string_view text) {
  if (over_) return;
  read_ += text.size();
  text::StopMatcher::Piece piece = matcher_.push(text);
  emit(std::move(piece.text));
  if (!piece.stopped) return;
  over_ = true;
  release_log_probabilities(false);
  pending_.clear();  // of the stop string
}

/// Nothing follows: what is held back is no stop string.
void AnswerMachine::end_answer() {
  if (over_) return;
  end_text();
  release_log_probabilities(true);
  over_ = true;
}

/// What is held back is no stop string: something else than text follows.
void AnswerMachine::end_text() {
  std::string rest = matcher_.finish();
  if (rest.empty()) return;
  emit(std::move(rest));
  // The stop strings were taken once, so they are good.
  matcher_ = std::move(*text::StopMatcher::create(form_.stops));
}

void AnswerMachine::emit(std::string text) {
  if (text.empty()) return;
  emitted_ += text.size();
  steps_.push_back({AnswerStep::Kind::text, std::move(text)});
}

/// Hands on the entries of tokens whose text, or its beginning, was handed on.
void AnswerMachine::release_log_probabilities(bool all) {
  const bool nothing_held = emitted_ == read_ && !over_;
  const auto end = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& each) {
    return !all && !nothing_held && each.start >= emitted_;
  });
  if (end == pending_.begin()) return;
  if (steps_.empty() || steps_.back().kind != AnswerStep::Kind::text) {
    steps_.push_back({AnswerStep::Kind::text});  // a part of a character has no text yet
  }
  for (auto each = pending_.begin(); each != end; ++each) {
    steps_.back().log_probabilities.push_back(std::move(each->log_probability));
  }
  pending_.erase(pending_.begin(), end);
}

}  // namespace sluice::server
