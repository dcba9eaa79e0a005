#include "text/answer_grammar.h"

#include <utility>

#include "text/json_containers.h"
#include "text/json_schema.h"
#include "text/k3_calls.h"

namespace sluice::text {
namespace {

/// Free text, a spelling with special tokens in it, and `rest`.
GrammarId after_text(Grammar& grammar, Symbols spelling, GrammarId rest) {
  const GrammarId text = grammar.add({GrammarNode::Kind::text});
  return grammar.sequence({text, grammar.literal(std::move(spelling)), rest});
}

Symbols joined(Symbols one, const Symbols& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

/// K3 thinks until it opens its response. (The prompt has opened it already if it does not think.)
GrammarId after_thinking(Grammar& grammar, const K3Markers& markers, bool thinking,
                         GrammarId response) {
  if (!thinking) return response;
  return after_text(grammar, joined(markers.close("think"), markers.open("response")), response);
}

/// gpt-oss may think in a channel of its own before it answers in another.
Result<GrammarId> channel_answer(Grammar& grammar, const Tokenizer& tokenizer, Thought thought,
                                 GrammarId json) {
  std::vector<Symbol> markers;
  for (const char* name : {"<|channel|>", "<|message|>", "<|end|>", "<|start|>"}) {
    const auto id = tokenizer.special_id(name);
    if (!id) return fail(ErrorKind::model_files, "the tokenizer has no token {}", name);
    markers.push_back(grammar.marker(*id));
  }
  const Symbols channel = {markers[0]};
  const Symbols message = {markers[1]};
  const Symbols final = joined(symbols_of("final"), message);
  const Symbols turn =
      joined(joined({markers[2], markers[3]}, symbols_of("assistant")), joined(channel, final));
  const GrammarId rest = after_text(grammar, turn, json);
  if (thought == Thought::begun) return rest;
  const GrammarId at_once = grammar.sequence({grammar.literal(final), json});
  const GrammarId thinking =
      grammar.sequence({grammar.literal(joined(symbols_of("analysis"), message)), rest});
  return grammar.sequence({grammar.literal(channel), grammar.choice({at_once, thinking})});
}

/// Others may think first, if they have markers for it.
GrammarId other_answer(Grammar& grammar, const Tokenizer& tokenizer, Thought thought,
                       GrammarId json) {
  const auto begin = tokenizer.special_id("<think>");
  const auto end = tokenizer.special_id("</think>");
  if (thought == Thought::none || !begin || !end) return json;
  const GrammarId answer = grammar.sequence({add_whitespace(grammar), json});
  const GrammarId rest = after_text(grammar, Symbols{grammar.marker(*end)}, answer);
  if (thought == Thought::begun) return rest;
  const GrammarId thinking =
      grammar.sequence({grammar.literal(Symbols{grammar.marker(*begin)}), rest});
  return grammar.choice({json, thinking});
}

/// A response and calls behind it, as they are asked for.
Result<GrammarId> response_and_calls(Grammar& grammar, const K3Markers& markers,
                                     const CallingAnswer& asked) {
  SLUICE_ASSIGN(const GrammarId calls,
                k3_calls(grammar, markers, *asked.tools, asked.schema_field));
  const GrammarId tools = grammar.sequence({grammar.literal(markers.open("tools")), calls});
  const GrammarId nothing = grammar.sequence({});
  const Symbols end = markers.close("response");
  const GrammarId only_calls = grammar.sequence({grammar.literal(end), tools});
  if (asked.must_call) return only_calls;
  if (asked.schema != nullptr) {
    SLUICE_ASSIGN(const GrammarId json, add_schema(grammar, *asked.schema, asked.where));
    return grammar.choice({json, only_calls});
  }
  return after_text(grammar, end, grammar.choice({nothing, tools}));
}

}  // namespace

Result<AnswerGrammar> json_answer(const Tokenizer& tokenizer,
                                  const std::optional<ChatFormat>& format, Thought thought,
                                  const Json& schema, const std::string& where) {
  AnswerGrammar answer;
  auto grammar = std::make_shared<Grammar>();
  SLUICE_ASSIGN(const GrammarId json, add_schema(*grammar, schema, where));
  GrammarId root = json;
  if (format && format->kind() == ChatFormat::Kind::kimi_k3) {
    SLUICE_ASSIGN(const K3Markers markers, K3Markers::create(*grammar, tokenizer));
    answer.end_ids.push_back(markers.close_id());  // what follows it is always the same
    root = after_thinking(*grammar, markers, thought == Thought::begun, json);
  } else if (format && format->kind() == ChatFormat::Kind::harmony) {
    SLUICE_ASSIGN(root, channel_answer(*grammar, tokenizer, thought, json));
  } else if (format) {
    root = other_answer(*grammar, tokenizer, thought, json);
  }
  SLUICE_TRY(close_grammar(*grammar, root, where));
  answer.grammar = std::move(grammar);
  return answer;
}

Result<AnswerGrammar> calling_answer(const Tokenizer& tokenizer, bool thinking,
                                     const CallingAnswer& asked) {
  AnswerGrammar answer;
  auto grammar = std::make_shared<Grammar>();
  SLUICE_ASSIGN(const K3Markers markers, K3Markers::create(*grammar, tokenizer));
  answer.end_ids.push_back(markers.close_id());  // of the last section that there is
  SLUICE_ASSIGN(const GrammarId rest, response_and_calls(*grammar, markers, asked));
  const GrammarId root = after_thinking(*grammar, markers, thinking, rest);
  SLUICE_TRY(close_grammar(*grammar, root, asked.schema != nullptr ? asked.where : "tools"));
  answer.grammar = std::move(grammar);
  return answer;
}

}  // namespace sluice::text
