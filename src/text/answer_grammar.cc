#include "text/answer_grammar.h"

#include <utility>

#include "text/json_containers.h"
#include "text/json_schema.h"

namespace sluice::text {
namespace {

/// Free text, a spelling with special tokens in it, and `rest`.
GrammarId after_text(Grammar& grammar, Symbols spelling, GrammarId rest) {
  const GrammarId text = grammar.add({GrammarNode::Kind::text});
  return grammar.sequence({text, grammar.literal(std::move(spelling)), rest});
}

void append(Symbols& symbols, std::string_view bytes) {
  const Symbols more = symbols_of(bytes);
  symbols.insert(symbols.end(), more.begin(), more.end());
}

/// K3 thinks until it opens its response. (The prompt has opened it already if it does not think.)
Result<GrammarId> k3_answer(Grammar& grammar, const Tokenizer& tokenizer, bool thinking,
                            GrammarId json, std::vector<std::int32_t>& end_ids) {
  const auto open = tokenizer.special_id("<|open|>");
  const auto close = tokenizer.special_id("<|close|>");
  const auto sep = tokenizer.special_id("<|sep|>");
  if (!open || !close || !sep) {
    return fail(ErrorKind::model_files, "the tokenizer lacks the markers of K3's chat format");
  }
  end_ids.push_back(*close);  // of the response: what follows it is always the same
  if (!thinking) return json;
  Symbols to_response = {grammar.marker(*close)};
  append(to_response, "think");
  to_response.push_back(grammar.marker(*sep));
  to_response.push_back(grammar.marker(*open));
  append(to_response, "response");
  to_response.push_back(grammar.marker(*sep));
  return after_text(grammar, std::move(to_response), json);
}

/// Others may think first, if they have markers for it.
GrammarId other_answer(Grammar& grammar, const Tokenizer& tokenizer, bool thinking,
                       GrammarId json) {
  const auto begin = tokenizer.special_id("<think>");
  const auto end = tokenizer.special_id("</think>");
  if (!thinking || !begin || !end) return json;
  const GrammarId answer = grammar.sequence({add_whitespace(grammar), json});
  const GrammarId thought =
      grammar.sequence({grammar.literal(Symbols{grammar.marker(*begin)}),
                        after_text(grammar, Symbols{grammar.marker(*end)}, answer)});
  return grammar.choice({json, thought});
}

}  // namespace

Result<AnswerGrammar> json_answer(const Tokenizer& tokenizer,
                                  const std::optional<ChatFormat>& format, bool thinking,
                                  const Json& schema, const std::string& where) {
  AnswerGrammar answer;
  auto grammar = std::make_shared<Grammar>();
  SLUICE_ASSIGN(const GrammarId json, add_schema(*grammar, schema, where));
  GrammarId root = json;
  if (format && format->kind() == ChatFormat::Kind::kimi_k3) {
    SLUICE_ASSIGN(root, k3_answer(*grammar, tokenizer, thinking, json, answer.end_ids));
  } else if (format && format->kind() != ChatFormat::Kind::kimi_k2) {
    root = other_answer(*grammar, tokenizer, thinking, json);
  }
  SLUICE_TRY(close_grammar(*grammar, root, where));
  answer.grammar = std::move(grammar);
  return answer;
}

}  // namespace sluice::text
