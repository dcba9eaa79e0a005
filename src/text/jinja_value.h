// Values of chat templates. A text knows of each of its bytes who wrote it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/jinja_memory.h"
#include "text/json.h"

namespace sluice::text::jinja {

struct Node;

/// Who wrote a byte: the template, or message number (origin - 1), or other data.
using Origin = std::uint16_t;
inline constexpr Origin kTemplate = 0;
inline constexpr Origin kOtherData = 0xFFFF;

struct Text {
  std::string bytes;
  std::vector<Origin, Counted<Origin>> origins;  // [bytes]

  Text() = default;
  Text(std::string_view text, Origin origin) : bytes(text), origins(text.size(), origin) {}
  void append(const Text& other);
  Text part(std::size_t first, std::size_t count) const;
  std::size_t size() const { return bytes.size(); }
  /// Characters, which are what templates count.
  std::size_t length() const;
  /// The first byte of a character; size() behind the last.
  std::size_t place_of(std::size_t character) const;
};

class Value;
using List = std::vector<Value, Counted<Value>>;
using Member = std::pair<std::string, Value>;
using Dictionary = std::vector<Member, Counted<Member>>;  // in the order of insertion

/// Undefined, none, true or false, a number, a text, a list, a dictionary, a namespace (a
/// dictionary that is shared and may be changed), or a function.
class Value {
 public:
  struct Undefined {};
  struct Namespace {
    std::shared_ptr<Dictionary> members;
  };
  struct Function {
    const Node* macro;  ///< of the template, which outlives its values; none: one that all have
    std::string name;
  };
  using Held =
      std::variant<Undefined, std::nullptr_t, bool, std::int64_t, double, Text,
                   std::shared_ptr<List>, std::shared_ptr<Dictionary>, Namespace, Function>;

  Value() = default;
  explicit Value(Held held) : held_(std::move(held)) {}
  static Value none() { return Value(Held(nullptr)); }
  static Value flag(bool value) { return Value(Held(value)); }
  static Value number(std::int64_t value) { return Value(Held(value)); }
  static Value text(std::string_view value, Origin origin = kTemplate) {
    return Value(Held(Text(value, origin)));
  }
  static Value text(Text value) { return Value(Held(std::move(value))); }
  static Value list(List value);
  static Value dictionary(Dictionary value);
  static Value function(const Node* macro, std::string_view name) {
    return Value(Held(Function{macro, std::string(name)}));
  }
  /// The texts of `json` get this origin.
  static Value from_json(const Json& json, Origin origin);

  /// Values inside, itself included, however often each is shared.
  std::size_t weight() const { return weight_; }
  /// Of lists and dictionaries in each other; 0: it is none of these.
  std::size_t levels() const { return levels_; }

  /// Whether a namespace is inside: such a value must not get into one, or nothing would free them.
  bool holds_namespace() const { return holds_namespace_ || as_namespace() != nullptr; }

  bool is_undefined() const { return std::holds_alternative<Undefined>(held_); }
  bool is_none() const { return std::holds_alternative<std::nullptr_t>(held_); }
  const bool* as_flag() const { return std::get_if<bool>(&held_); }
  const std::int64_t* as_integer() const { return std::get_if<std::int64_t>(&held_); }
  const double* as_real() const { return std::get_if<double>(&held_); }
  const Text* as_text() const { return std::get_if<Text>(&held_); }
  const List* as_list() const;
  const Dictionary* as_dictionary() const;
  const Namespace* as_namespace() const { return std::get_if<Namespace>(&held_); }
  const Function* as_function() const { return std::get_if<Function>(&held_); }

  /// What `if` makes of it.
  bool is_true() const;
  /// The number that it is, if it is one (true and false are 1 and 0).
  std::optional<double> to_number() const;
  /// What {{ }} writes of it.
  Text to_text() const;
  Json to_json() const;
  /// "a string", "a list", ... for messages.
  const char* kind() const;

  bool equals(const Value& other) const;
  /// The member of a dictionary or namespace, or nothing.
  const Value* member(std::string_view name) const;

 private:
  Held held_;
  std::size_t weight_ = 1;
  std::size_t levels_ = 0;
  bool holds_namespace_ = false;
};

}  // namespace sluice::text::jinja
