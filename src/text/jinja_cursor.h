// A place among a template's tokens, and what both halves of the parser do there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja_nested.h"
#include "text/jinja_syntax.h"
#include "text/jinja_tokens.h"

namespace sluice::text::jinja {

class Cursor {
 public:
  explicit Cursor(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  // Together they bound the depth of the tree, which is walked recursively.
  static constexpr int kMostNested = 40;
  static constexpr int kMostLinks = 300;  // operators, members and filters of one tag

  const Token& now() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  void advance() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  bool is_sign(std::string_view sign) const {
    return now().kind == Token::Kind::sign && now().text == sign;
  }
  bool is_word(std::string_view word) const {
    return now().kind == Token::Kind::name && now().text == word;
  }
  bool take_sign(std::string_view sign) {
    if (!is_sign(sign)) return false;
    advance();
    return true;
  }
  bool take_word(std::string_view word) {
    if (!is_word(word)) return false;
    advance();
    return true;
  }

  tl::unexpected<Error> wrong(std::string_view what) const {
    return fail(ErrorKind::model_files, "line {}: {}", now().line, what);
  }
  tl::unexpected<Error> unexpected() const {
    return wrong(
        fmt::format("'{}' is not expected here, or not understood", now().text.substr(0, 40)));
  }
  Status expect_sign(std::string_view sign) {
    if (take_sign(sign)) return {};
    return wrong(fmt::format("expected '{}', found '{}'", sign, now().text.substr(0, 40)));
  }
  Status expect(Token::Kind kind) {
    if (now().kind != kind) return unexpected();
    advance();
    return {};
  }
  Result<std::string> expect_name() {
    if (now().kind != Token::Kind::name) return unexpected();
    std::string name = now().text;
    advance();
    return name;
  }

  NodePtr make(Node::Kind kind, std::string text = {}) const {
    auto node = std::make_unique<Node>(Node{kind, now().line});
    node->text = std::move(text);
    return node;
  }
  static NodePtr with(NodePtr node, NodePtr child) {
    node->children.push_back(std::move(child));
    return node;
  }

  /// One more operator of a tag.
  Status link() {
    if (++links_ <= kMostLinks) return {};
    return wrong("an expression of too many parts");
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int links_ = 0;
};

}  // namespace sluice::text::jinja
