// An answer that is held to an integer.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "text/answer_grammar.h"
#include "text/token_constraint.h"
#include "text/token_index.h"

namespace sluice::text {

/// Whether an answer that is held to an integer may be this one, and then `end`.
inline bool integer_may_be(const Tokenizer& tokenizer, const ChatFormat& format, Thought thought,
                           std::string_view written, std::string_view end) {
  const AnswerGrammar answer =
      json_answer(tokenizer, format, thought, {{"type", "integer"}}, "schema").value();
  const TokenIndex index(tokenizer);
  const std::int32_t end_id = tokenizer.special_id(end).value();
  TokenConstraint constraint(answer.grammar, index, std::span(&end_id, 1));
  const auto ids = tokenizer.encode(written, Tokenizer::Special::as_control).value();
  for (const std::int32_t id : ids) {
    if (!constraint.allowed().value()->allows(static_cast<std::size_t>(id))) return false;
    EXPECT_TRUE(constraint.push(id));
  }
  return constraint.allowed().value()->allows(static_cast<std::size_t>(end_id));
}

}  // namespace sluice::text
