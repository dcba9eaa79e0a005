#include "text/jinja_expression_parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

namespace sluice::text::jinja {
namespace {

using Kind = Node::Kind;

/// A name, or the constant of that name.
NodePtr named(NodePtr node) {
  node->kind = Kind::name;
  for (const std::string_view word : {"true", "false", "none"}) {
    std::string capital(word);
    capital[0] = static_cast<char>(capital[0] - 'a' + 'A');
    if (node->text != word && node->text != capital) continue;
    node->kind = Kind::constant;
    node->text = word;
  }
  return node;
}

}  // namespace

Result<NodePtr> ExpressionParser::expression() {
  const Nested nested(depth_);
  if (depth_ > kMostNested) return wrong("an expression nested too deeply");
  SLUICE_ASSIGN(NodePtr value, either());
  if (!take_word("if")) return value;
  NodePtr node = make(Kind::choice);
  SLUICE_ASSIGN(NodePtr condition, either());
  NodePtr otherwise;
  if (take_word("else")) {
    SLUICE_ASSIGN(otherwise, expression());
  }
  node->children.push_back(std::move(value));
  node->children.push_back(std::move(condition));
  node->children.push_back(std::move(otherwise));
  return node;
}

/// Left-associative operators, one level below the other.
template <std::size_t kCount>
Result<NodePtr> ExpressionParser::operators(Level operand,
                                            const std::array<std::string_view, kCount>& signs) {
  SLUICE_ASSIGN(NodePtr left, (this->*operand)());
  while (true) {
    bool found = false;
    for (const std::string_view sign : signs) {
      if (!is_sign(sign) && !is_word(sign)) continue;
      SLUICE_TRY(link());
      NodePtr node = make(Kind::binary, std::string(sign));
      advance();
      SLUICE_ASSIGN(NodePtr right, (this->*operand)());
      left = with(with(std::move(node), std::move(left)), std::move(right));
      found = true;
      break;
    }
    if (!found) return left;
  }
}

Result<NodePtr> ExpressionParser::either() {
  return operators<1>(&ExpressionParser::both, std::array<std::string_view, 1>{"or"});
}

Result<NodePtr> ExpressionParser::both() {
  return operators<1>(&ExpressionParser::negation, std::array<std::string_view, 1>{"and"});
}

Result<NodePtr> ExpressionParser::negation() {
  const Nested nested(depth_);
  if (depth_ > kMostNested) return wrong("an expression nested too deeply");
  if (!is_word("not")) return comparison();
  NodePtr node = make(Kind::unary, "not");
  advance();
  SLUICE_ASSIGN(NodePtr value, negation());
  return with(std::move(node), std::move(value));
}

Result<NodePtr> ExpressionParser::comparison() {
  SLUICE_ASSIGN(NodePtr left, joined());
  while (true) {
    std::string sign;
    const bool negated = is_word("not") && next().text == "in";
    if (negated) advance();
    if (now().kind == Token::Kind::sign || is_word("in")) sign = now().text;
    static constexpr std::array<std::string_view, 7> kSigns = {
        "==", "!=", "<=", ">=", "<", ">", "in"};
    if (std::find(kSigns.begin(), kSigns.end(), sign) == kSigns.end()) return left;
    SLUICE_TRY(link());
    NodePtr node = make(Kind::binary, sign);
    advance();
    SLUICE_ASSIGN(NodePtr right, joined());
    left = with(with(std::move(node), std::move(left)), std::move(right));
    if (negated) left = with(make(Kind::unary, "not"), std::move(left));
  }
}

Result<NodePtr> ExpressionParser::joined() {
  return operators<1>(&ExpressionParser::sum, std::array<std::string_view, 1>{"~"});
}

Result<NodePtr> ExpressionParser::sum() {
  return operators<2>(&ExpressionParser::product, std::array<std::string_view, 2>{"+", "-"});
}

Result<NodePtr> ExpressionParser::product() {
  return operators<4>(&ExpressionParser::signed_value,
                      std::array<std::string_view, 4>{"*", "//", "/", "%"});
}

Result<NodePtr> ExpressionParser::signed_value() {
  const Nested nested(depth_);
  if (depth_ > kMostNested) return wrong("an expression nested too deeply");
  if (!is_sign("-")) return filtered();
  NodePtr node = make(Kind::unary, "-");
  advance();
  SLUICE_ASSIGN(NodePtr value, signed_value());
  return with(std::move(node), std::move(value));
}

/// A value with its filters and tests.
Result<NodePtr> ExpressionParser::filtered() {
  SLUICE_ASSIGN(NodePtr value, postfix());
  while (true) {
    SLUICE_TRY(link());
    if (take_sign("|")) {
      SLUICE_ASSIGN(value, named_with_arguments(Kind::filter, std::move(value)));
    } else if (take_word("is")) {
      const bool negated = take_word("not");
      SLUICE_ASSIGN(value, named_with_arguments(Kind::test, std::move(value)));
      if (negated) value = with(make(Kind::unary, "not"), std::move(value));
    } else {
      return value;
    }
  }
}

Result<NodePtr> ExpressionParser::named_with_arguments(Kind kind, NodePtr value) {
  NodePtr node = make(kind);
  SLUICE_ASSIGN(node->text, expect_name());
  node->children.push_back(std::move(value));
  if (take_sign("(")) SLUICE_TRY(arguments(*node));
  return node;
}

/// Up to the closing bracket. Named ones come last.
Status ExpressionParser::arguments(Node& node) {
  while (!take_sign(")")) {
    if (now().kind == Token::Kind::name && next().kind == Token::Kind::sign && next().text == "=") {
      node.names.push_back(now().text);
      advance();
      advance();
    } else if (!node.names.empty()) {
      return wrong("an argument without a name behind one with a name");
    }
    SLUICE_ASSIGN(NodePtr value, expression());
    node.children.push_back(std::move(value));
    if (!is_sign(")")) SLUICE_TRY(expect_sign(","));
  }
  return {};
}

Result<NodePtr> ExpressionParser::postfix() {
  SLUICE_ASSIGN(NodePtr value, primary());
  while (true) {
    SLUICE_TRY(link());
    if (take_sign(".")) {
      NodePtr node = make(Kind::member);
      SLUICE_ASSIGN(node->text, expect_name());
      value = with(std::move(node), std::move(value));
    } else if (take_sign("(")) {
      NodePtr node = with(make(Kind::call), std::move(value));
      SLUICE_TRY(arguments(*node));
      value = std::move(node);
    } else if (take_sign("[")) {
      SLUICE_ASSIGN(value, subscript(std::move(value)));
    } else {
      return value;
    }
  }
}

Result<NodePtr> ExpressionParser::subscript(NodePtr value) {
  NodePtr node = with(make(Kind::index), std::move(value));
  for (int part = 0; part < 3; ++part) {
    NodePtr bound;
    if (!is_sign(":") && !is_sign("]")) {
      SLUICE_ASSIGN(bound, expression());
    }
    node->children.push_back(std::move(bound));
    if (part == 2 || !take_sign(":")) break;
    node->kind = Kind::slice;
  }
  if (node->kind == Kind::slice) node->children.resize(4);
  if (node->kind == Kind::index && node->children[1] == nullptr) return unexpected();
  SLUICE_TRY(expect_sign("]"));
  return node;
}

Result<NodePtr> ExpressionParser::primary() {
  const Token token = now();
  NodePtr node = make(Kind::string, token.text);
  advance();
  switch (token.kind) {
    case Token::Kind::string:
      while (now().kind == Token::Kind::string) {  // neighbours are one
        node->text += now().text;
        advance();
      }
      return node;
    case Token::Kind::integer:
      node->kind = Kind::integer;
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), node->number);
      return node;
    case Token::Kind::real:
      node->kind = Kind::real;
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), node->real);
      return node;
    case Token::Kind::name:
      return named(std::move(node));
    default:
      break;
  }
  if (token.text == "(") {
    SLUICE_ASSIGN(NodePtr inside, expression());
    SLUICE_TRY(expect_sign(")"));
    return inside;
  }
  if (token.text == "[") return list(std::move(node), "]", Kind::list);
  if (token.text == "{") return list(std::move(node), "}", Kind::dictionary);
  --at_;
  return unexpected();
}

Result<NodePtr> ExpressionParser::list(NodePtr node, std::string_view close, Kind kind) {
  node->kind = kind;
  while (!take_sign(close)) {
    SLUICE_ASSIGN(NodePtr value, expression());
    node->children.push_back(std::move(value));
    if (kind == Kind::dictionary) {
      SLUICE_TRY(expect_sign(":"));
      SLUICE_ASSIGN(NodePtr of_key, expression());
      node->children.push_back(std::move(of_key));
    }
    if (!is_sign(close)) SLUICE_TRY(expect_sign(","));
  }
  return node;
}

}  // namespace sluice::text::jinja
