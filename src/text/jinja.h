// Chat templates: the part of Jinja that models' templates are written in, and nothing that reaches
// outside of it. What is not understood is refused with its line.
//
// Understood: text, {{ }}, if, for (with `if` and else; break, continue; loop.index, index0, first,
// last, length), set (of names and of a namespace's members), macro (of the template itself, not
// inside of loops and macros; with defaults, called with and without names of arguments, also by
// itself), comments, white space control; strings, numbers, lists, dictionaries, members,
// subscripts and slices; and, or, not, in, comparisons, ~ + - * // %, x if y else z; namespace(),
// range(), raise_exception(), strftime_now() with %a %A %b %B %d %H %I %j %m %M %p %S %y %Y %%;
// filters, tests and methods as in jinja_functions.cc. Not: includes, imports, inheritance, call
// and filter blocks, set blocks, methods that change a list.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/jinja_syntax.h"
#include "text/jinja_value.h"

namespace sluice::text::jinja {

class Template {
 public:
  /// ErrorKind::model_files with the line of what is wrong or not understood.
  static Result<Template> parse(std::string_view source);

  /// Renders with these names. The work, the text, and the stack that it takes, a part of
  /// kThreadStackBytes, are bounded.
  /// ErrorKind::usage with the line of what cannot be done, and with the template's own words where
  /// it raises an exception. `now`: what strftime_now() tells; without it there is no such
  /// function.
  Result<Text> render(const Dictionary& names, const std::optional<std::tm>& now = {}) const;

 private:
  explicit Template(NodePtr root) : root_(std::move(root)) {}
  std::shared_ptr<const Node> root_;
};

}  // namespace sluice::text::jinja
