#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "text/jinja_expression_parser.h"
#include "text/jinja_syntax.h"
#include "text/jinja_tokens.h"

namespace sluice::text::jinja {
namespace {

constexpr std::size_t kMostSource = std::size_t{1} << 20;

using Kind = Node::Kind;

/// The statements of a template, and the text between them.
class Parser : public ExpressionParser {
 public:
  explicit Parser(std::vector<Token> tokens) : ExpressionParser(std::move(tokens)) {}

  Result<NodePtr> run() {
    SLUICE_ASSIGN(NodePtr all, body());
    if (now().kind != Token::Kind::end) return wrong("a block ends that did not begin");
    return all;
  }

 private:
  /// Whether a block begins here whose first word is one of those that end bodies.
  bool at_end_of_body() const {
    if (now().kind == Token::Kind::end) return true;
    if (now().kind != Token::Kind::begin_block || next().kind != Token::Kind::name) return false;
    for (const std::string_view word :
         {"endif", "else", "elif", "endfor", "endmacro", "endgeneration"}) {
      if (next().text == word) return true;
    }
    return false;
  }

  Result<NodePtr> body() {
    const Nested nested(depth_);
    if (depth_ > kMostNested) return wrong("blocks nested too deeply");
    NodePtr all = make(Kind::body);
    while (!at_end_of_body()) {
      SLUICE_ASSIGN(NodePtr part, statement());
      all->children.push_back(std::move(part));
    }
    return all;
  }

  Result<NodePtr> statement() {
    links_ = 0;
    if (now().kind == Token::Kind::text) {
      NodePtr node = make(Kind::text, now().text);
      advance();
      return node;
    }
    if (now().kind == Token::Kind::begin_output) {
      NodePtr node = make(Kind::output);
      advance();
      SLUICE_ASSIGN(NodePtr value, expression());
      SLUICE_TRY(expect(Token::Kind::end_output));
      return with(std::move(node), std::move(value));
    }
    SLUICE_TRY(expect(Token::Kind::begin_block));
    if (take_word("if")) return branch();
    if (take_word("for")) return loop();
    if (take_word("set")) return assign();
    if (take_word("macro")) return macro();
    if (is_word("break") || is_word("continue")) return jump();
    if (take_word("generation")) return generation();
    return unexpected();
  }

  Status end_block(std::string_view word) {
    SLUICE_TRY(expect(Token::Kind::begin_block));
    if (!take_word(word)) return unexpected();
    return expect(Token::Kind::end_block);
  }

  Result<NodePtr> branch() {
    NodePtr node = make(Kind::branch);
    while (true) {
      SLUICE_ASSIGN(NodePtr condition, expression());
      SLUICE_TRY(expect(Token::Kind::end_block));
      SLUICE_ASSIGN(NodePtr then, body());
      node->children.push_back(std::move(condition));
      node->children.push_back(std::move(then));
      SLUICE_TRY(expect(Token::Kind::begin_block));
      if (take_word("elif")) continue;
      if (take_word("else")) {
        SLUICE_TRY(expect(Token::Kind::end_block));
        SLUICE_ASSIGN(NodePtr otherwise, body());
        node->children.push_back(std::move(otherwise));
        SLUICE_TRY(expect(Token::Kind::begin_block));
      }
      if (!take_word("endif")) return unexpected();
      SLUICE_TRY(expect(Token::Kind::end_block));
      return node;
    }
  }

  Result<NodePtr> loop() {
    NodePtr node = make(Kind::loop);
    do {
      SLUICE_ASSIGN(std::string name, expect_name());
      node->names.push_back(std::move(name));
    } while (take_sign(","));
    if (!take_word("in")) return unexpected();
    SLUICE_ASSIGN(NodePtr list, either());
    NodePtr condition;
    if (take_word("if")) {
      SLUICE_ASSIGN(condition, expression());
    }
    SLUICE_TRY(expect(Token::Kind::end_block));
    ++loops_;
    SLUICE_ASSIGN(NodePtr each, body());
    --loops_;
    NodePtr none = make(Kind::body);
    if (next().text == "else") {
      SLUICE_TRY(end_block("else"));
      SLUICE_ASSIGN(none, body());
    }
    SLUICE_TRY(end_block("endfor"));
    node->children.push_back(std::move(list));
    node->children.push_back(std::move(each));
    node->children.push_back(std::move(none));
    node->children.push_back(std::move(condition));
    return node;
  }

  Result<NodePtr> jump() {
    if (loops_ == 0) return wrong(fmt::format("'{}' outside of a loop", now().text));
    NodePtr node = make(is_word("break") ? Kind::leave_loop : Kind::next_round);
    advance();
    SLUICE_TRY(expect(Token::Kind::end_block));
    return node;
  }

  /// Its names would be those of the loop or macro around it, which may be over when it is called.
  Result<NodePtr> macro() {
    if (loops_ > 0 || in_macro_) return wrong("a macro inside of a loop or a macro");
    NodePtr node = make(Kind::macro);
    SLUICE_ASSIGN(node->text, expect_name());
    node->children.emplace_back();
    SLUICE_TRY(expect_sign("("));
    while (!take_sign(")")) {
      SLUICE_TRY(parameter(*node));
      if (!is_sign(")")) SLUICE_TRY(expect_sign(","));
    }
    SLUICE_TRY(expect(Token::Kind::end_block));
    in_macro_ = true;
    SLUICE_ASSIGN(node->children[0], body());
    in_macro_ = false;
    SLUICE_TRY(end_block("endmacro"));
    return node;
  }

  Status parameter(Node& macro) {
    SLUICE_ASSIGN(std::string name, expect_name());
    if (std::ranges::find(macro.names, name) != macro.names.end()) {
      return wrong(fmt::format("two arguments '{}' of a macro", name.substr(0, 40)));
    }
    NodePtr value;
    if (take_sign("=")) {
      SLUICE_ASSIGN(value, expression());
    } else if (macro.children.size() > 1 && macro.children.back() != nullptr) {
      return wrong("an argument without a default behind one with a default");
    }
    macro.names.push_back(std::move(name));
    macro.children.push_back(std::move(value));
    return {};
  }

  Result<NodePtr> assign() {
    NodePtr node = make(Kind::assign);
    SLUICE_ASSIGN(std::string name, expect_name());
    node->names.push_back(std::move(name));
    if (take_sign(".")) {
      SLUICE_ASSIGN(std::string member, expect_name());
      node->names.push_back(std::move(member));
    }
    SLUICE_TRY(expect_sign("="));
    SLUICE_ASSIGN(NodePtr value, expression());
    SLUICE_TRY(expect(Token::Kind::end_block));
    return with(std::move(node), std::move(value));
  }

  /// Marks what the model writes, for training; for us it is its body.
  Result<NodePtr> generation() {
    SLUICE_TRY(expect(Token::Kind::end_block));
    SLUICE_ASSIGN(NodePtr inside, body());
    SLUICE_TRY(end_block("endgeneration"));
    return inside;
  }

  int loops_ = 0;  // around this place
  bool in_macro_ = false;
};

}  // namespace

Result<NodePtr> parse(std::string_view source) {
  if (source.size() > kMostSource) {
    return fail(ErrorKind::model_files, "a template of {} bytes, expected at most {}",
                source.size(), kMostSource);
  }
  if (source.ends_with('\n')) source.remove_suffix(1);  // as Jinja does
  SLUICE_ASSIGN(std::vector<Token> tokens, tokens_of(source));
  return Parser(std::move(tokens)).run();
}

}  // namespace sluice::text::jinja
