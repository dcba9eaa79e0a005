// JSON schemas made into grammars, and texts tried on them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "text/grammar_state.h"
#include "text/json_schema.h"

namespace sluice::text {

inline Result<std::shared_ptr<const Grammar>> compile(const Json& schema) {
  auto grammar = std::make_shared<Grammar>();
  SLUICE_ASSIGN(const GrammarId root, add_schema(*grammar, schema, "schema"));
  SLUICE_TRY(close_grammar(*grammar, root, "schema"));
  return std::shared_ptr<const Grammar>(std::move(grammar));
}

inline std::string fault(const char* schema) {
  const auto grammar = compile(Json::parse(schema));
  return grammar ? "" : grammar.error().message;
}

/// Whether a whole text is in the grammar of a schema.
inline bool accepts(const char* schema, std::string_view text) {
  const auto compiled = compile(Json::parse(schema));
  if (!compiled) {
    ADD_FAILURE() << compiled.error().message;
    return false;
  }
  const std::shared_ptr<const Grammar>& grammar = *compiled;
  GrammarState state(*grammar), next(*grammar);
  for (const char byte : text) {
    if (!state.step(static_cast<unsigned char>(byte), next)) return false;
    std::swap(state, next);
  }
  return state.may_end();
}

}  // namespace sluice::text
