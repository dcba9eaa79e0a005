#include "text/jinja_tokens.h"

#include <algorithm>
#include <array>

namespace sluice::text::jinja {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) SLUICE_TRY(text_and_tag());
    add(Token::Kind::end, "");
    return std::move(tokens_);
  }

 private:
  using Kind = Token::Kind;

  void add(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  tl::unexpected<Error> wrong(std::string_view what) const {
    return fail(ErrorKind::model_files, "line {}: {}", line_, what);
  }

  void skip(std::size_t count) {
    line_ += static_cast<std::size_t>(std::ranges::count(source_.substr(at_, count), '\n'));
    at_ = std::min(at_ + count, source_.size());
  }

  /// The text up to the next tag, and the tag.
  Status text_and_tag() {
    std::size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= source_.size()) tag = source_.size();
      if (tag == source_.size() ||
          std::string_view("{%#").find(source_[tag + 1]) != std::string_view::npos) {
        break;
      }
      ++tag;
    }
    std::string_view text = source_.substr(at_, tag - at_);
    const char kind = tag < source_.size() ? source_[tag + 1] : '\0';
    const char mark = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    if (strip_next_) {
      text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    }
    if (kind != '\0' && mark == '-') {
      while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    } else if ((kind == '%' || kind == '#') && mark != '+') {
      text = without_indent(text);
    }
    if (!text.empty()) add(Kind::text, std::string(text));
    skip(tag - at_);
    if (kind == '\0') return {};
    skip(mark == '-' || mark == '+' ? 3 : 2);
    return kind == '#' ? comment() : this->tag(kind == '%');
  }

  /// What stands before a block alone on its line is no text.
  std::string_view without_indent(std::string_view text) const {
    std::size_t end = text.size();
    while (end > 0 && (text[end - 1] == ' ' || text[end - 1] == '\t')) --end;
    const bool begins_line = end > 0 ? text[end - 1] == '\n' : at_ == 0 || trimmed_line_;
    return begins_line ? text.substr(0, end) : text;
  }

  void after_tag(bool stripped, bool block) {
    strip_next_ = stripped;
    trimmed_line_ = false;
    if (block && !stripped && at_ < source_.size() && source_[at_] == '\n') {
      skip(1);
      trimmed_line_ = true;
    }
  }

  Status comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) return wrong("a comment without an end");
    const bool stripped = end > at_ && source_[end - 1] == '-';
    skip(end + 2 - at_);
    after_tag(stripped, true);
    return {};
  }

  Status tag(bool block) {
    add(block ? Kind::begin_block : Kind::begin_output, "");
    const std::string_view close = block ? "%}" : "}}";
    int brackets = 0;  // a dictionary may end in two braces
    while (true) {
      while (at_ < source_.size() && is_space(source_[at_])) skip(1);
      const std::string_view rest = source_.substr(at_);
      if (rest.empty()) return wrong("a tag without an end");
      const bool minus = rest.starts_with('-') || (block && rest.starts_with('+'));
      if (brackets == 0 &&
          (rest.starts_with(close) || (minus && rest.substr(1).starts_with(close)))) {
        const bool stripped = rest[0] == '-';
        add(block ? Kind::end_block : Kind::end_output, "");
        skip(minus ? 3 : 2);
        after_tag(stripped, block);
        return {};
      }
      SLUICE_TRY(token(brackets));
    }
  }

  Status token(int& brackets) {
    const char c = source_[at_];
    if (c == '\'' || c == '"') return string(c);
    if (is_digit(c)) return number();
    if (begins_name(c)) {
      std::size_t end = at_;
      while (end < source_.size() && (begins_name(source_[end]) || is_digit(source_[end]))) ++end;
      add(Kind::name, std::string(source_.substr(at_, end - at_)));
      at_ = end;
      return {};
    }
    static constexpr std::array<std::string_view, 8> kPairs = {
        "==", "!=", "<=", ">=", "//", "**", "&&", "||"};
    std::size_t size = 1;
    for (const std::string_view pair : kPairs) {
      if (source_.substr(at_).starts_with(pair)) size = 2;
    }
    const std::string sign(source_.substr(at_, size));
    if (size == 1 && std::string_view("()[]{}.,:|~+-*/%<>=").find(c) == std::string_view::npos) {
      return wrong(fmt::format("unexpected character '{}'", c < ' ' ? '?' : c));
    }
    if (c == '(' || c == '[' || c == '{') ++brackets;
    if (c == ')' || c == ']' || c == '}') --brackets;
    if (brackets < 0) return wrong("a closing bracket too many");
    add(Kind::sign, sign);
    at_ += size;
    return {};
  }

  Status string(char quote) {
    std::string text;
    std::size_t at = at_ + 1;
    while (at < source_.size() && source_[at] != quote) {
      char c = source_[at++];
      if (c == '\\' && at < source_.size()) {
        c = source_[at++];
        if (c == 'n')
          c = '\n';
        else if (c == 't')
          c = '\t';
        else if (c == 'r')
          c = '\r';
        else if (c != '\\' && c != '\'' && c != '"')
          text += '\\';  // as Python has it
      }
      text += c;
    }
    if (at >= source_.size()) return wrong("a string without an end");
    add(Kind::string, std::move(text));
    skip(at + 1 - at_);
    return {};
  }

  Status number() {
    std::size_t end = at_;
    bool real = false;
    while (end < source_.size() &&
           (is_digit(source_[end]) || (source_[end] == '.' && !real && end + 1 < source_.size() &&
                                       is_digit(source_[end + 1])))) {
      real = real || source_[end] == '.';
      ++end;
    }
    if (end - at_ > 18) return wrong("a number of more than 18 digits");
    add(real ? Kind::real : Kind::integer, std::string(source_.substr(at_, end - at_)));
    at_ = end;
    return {};
  }

  std::string_view source_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  bool strip_next_ = false;    // the tag before ended in -
  bool trimmed_line_ = false;  // the new line before was a tag's
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> tokens_of(std::string_view source) { return Lexer(source).run(); }

}  // namespace sluice::text::jinja
