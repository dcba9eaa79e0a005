// The syntax of chat templates: a small part of Jinja, as a tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice::text::jinja {

struct Node;
using NodePtr = std::unique_ptr<Node>;

/// A statement or an expression. Which fields count, its kind says.
struct Node {
  enum class Kind : std::uint8_t {
    // Statements
    body,        ///< children, one after the other
    text,        ///< `text` as it is
    output,      ///< the value of children[0]
    branch,      ///< children: condition, body, condition, body, ..., and perhaps a last body
    loop,        ///< names; children: list, body, body if the list is empty, condition or null
    leave_loop,  ///< break
    next_round,  ///< continue
    assign,      ///< names[0], or names[0].names[1] of a namespace; children[0]
    macro,       ///< `text` is its name, `names` are its arguments; children: body, and for each
                 ///< argument its default or null
    // Expressions
    string,      ///< `text`
    integer,     ///< `number`
    real,        ///< `real`
    constant,    ///< `text`: true, false, none
    name,        ///< `text`
    list,        ///< children
    dictionary,  ///< children: key, value, key, value, ...
    member,      ///< children[0].text
    index,       ///< children[0][children[1]]
    slice,       ///< children[0][children[1]:children[2]:children[3]], each null if it is missing
    call,        ///< children[0](children[1], ...), of which the last names.size() are named
    filter,      ///< children[0] | text(children[1], ...)
    test,        ///< children[0] is text(children[1], ...)
    unary,       ///< `text`: not, -
    binary,      ///< `text`: and, or, ==, +, ...; children: left, right
    choice,      ///< children: value, condition, otherwise or null
  };
  Kind kind;
  std::size_t line = 0;
  std::string text = {};
  std::int64_t number = 0;
  double real = 0;
  std::vector<std::string> names = {};
  std::vector<NodePtr> children = {};
};

/// Parses a template. ErrorKind::model_files with the line of what is wrong, or not in the part of
/// Jinja that is understood.
Result<NodePtr> parse(std::string_view source);

}  // namespace sluice::text::jinja
