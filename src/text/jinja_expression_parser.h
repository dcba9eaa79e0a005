// The expressions of a chat template.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja_cursor.h"
#include "text/jinja_syntax.h"

namespace sluice::text::jinja {

/// By recursive descent: a method per level of precedence, the weakest first.
class ExpressionParser : public Cursor {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : Cursor(std::move(tokens)) {}

 protected:
  Result<NodePtr> expression();
  /// One without `x if y else z`, which would take a loop's `if`.
  Result<NodePtr> either();

 private:
  using Level = Result<NodePtr> (ExpressionParser::*)();
  template <std::size_t kCount>
  Result<NodePtr> operators(Level operand, const std::array<std::string_view, kCount>& signs);

  Result<NodePtr> both();
  Result<NodePtr> negation();
  Result<NodePtr> comparison();
  Result<NodePtr> joined();
  Result<NodePtr> sum();
  Result<NodePtr> product();
  Result<NodePtr> signed_value();
  Result<NodePtr> filtered();
  Result<NodePtr> named_with_arguments(Node::Kind kind, NodePtr value);
  Status arguments(Node& node);
  Result<NodePtr> postfix();
  Result<NodePtr> subscript(NodePtr value);
  Result<NodePtr> primary();
  Result<NodePtr> list(NodePtr node, std::string_view close, Node::Kind kind);
};

}  // namespace sluice::text::jinja
