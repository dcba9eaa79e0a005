#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "text/jinja_syntax.h"
#include "text/jinja_tokens.h"

namespace sluice::text::jinja {
namespace {

// Together they bound the depth of the tree, which is walked recursively.
constexpr int kMostNested = 40;
constexpr int kMostLinks = 300;  // operators, members and filters of one tag
constexpr std::size_t kMostSource = std::size_t{1} << 20;

using Kind = Node::Kind;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Result<NodePtr> run() {
    SLUICE_ASSIGN(NodePtr all, body());
    if (now().kind != Token::Kind::end) return wrong("a block ends that did not begin");
    return all;
  }

 private:
  /// Counts how deep expressions and blocks are nested.
  class Nested {
   public:
    explicit Nested(int& depth) : depth_(depth) { ++depth_; }
    ~Nested() { --depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    int& depth_;
  };

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

  NodePtr make(Kind kind, std::string text = {}) const {
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

  /// Whether a block begins here whose first word is one of those that end bodies.
  bool at_end_of_body() const {
    if (now().kind == Token::Kind::end) return true;
    if (now().kind != Token::Kind::begin_block || next().kind != Token::Kind::name) return false;
    for (const std::string_view word : {"endif", "else", "elif", "endfor", "endgeneration"}) {
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
    SLUICE_ASSIGN(NodePtr each, body());
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

  Result<NodePtr> expression() {
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
  using Level = Result<NodePtr> (Parser::*)();
  template <std::size_t kCount>
  Result<NodePtr> operators(Level operand, const std::array<std::string_view, kCount>& signs) {
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

  Result<NodePtr> either() {
    return operators<1>(&Parser::both, std::array<std::string_view, 1>{"or"});
  }
  Result<NodePtr> both() {
    return operators<1>(&Parser::negation, std::array<std::string_view, 1>{"and"});
  }

  Result<NodePtr> negation() {
    const Nested nested(depth_);
    if (depth_ > kMostNested) return wrong("an expression nested too deeply");
    if (!is_word("not")) return comparison();
    NodePtr node = make(Kind::unary, "not");
    advance();
    SLUICE_ASSIGN(NodePtr value, negation());
    return with(std::move(node), std::move(value));
  }

  Result<NodePtr> comparison() {
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

  Result<NodePtr> joined() {
    return operators<1>(&Parser::sum, std::array<std::string_view, 1>{"~"});
  }
  Result<NodePtr> sum() {
    return operators<2>(&Parser::product, std::array<std::string_view, 2>{"+", "-"});
  }
  Result<NodePtr> product() {
    return operators<4>(&Parser::signed_value,
                        std::array<std::string_view, 4>{"*", "//", "/", "%"});
  }

  Result<NodePtr> signed_value() {
    const Nested nested(depth_);
    if (depth_ > kMostNested) return wrong("an expression nested too deeply");
    if (!is_sign("-")) return filtered();
    NodePtr node = make(Kind::unary, "-");
    advance();
    SLUICE_ASSIGN(NodePtr value, signed_value());
    return with(std::move(node), std::move(value));
  }

  /// A value with its filters and tests.
  Result<NodePtr> filtered() {
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

  Result<NodePtr> named_with_arguments(Kind kind, NodePtr value) {
    NodePtr node = make(kind);
    SLUICE_ASSIGN(node->text, expect_name());
    node->children.push_back(std::move(value));
    if (take_sign("(")) SLUICE_TRY(arguments(*node));
    return node;
  }

  /// Up to the closing bracket. Named ones come last.
  Status arguments(Node& node) {
    while (!take_sign(")")) {
      if (now().kind == Token::Kind::name && next().kind == Token::Kind::sign &&
          next().text == "=") {
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

  Result<NodePtr> postfix() {
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

  Result<NodePtr> subscript(NodePtr value) {
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

  Result<NodePtr> primary() {
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
        return name(std::move(node));
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

  static Result<NodePtr> name(NodePtr node) {
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

  Result<NodePtr> list(NodePtr node, std::string_view close, Kind kind) {
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

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int links_ = 0;
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
