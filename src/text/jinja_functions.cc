#include "text/jinja_functions.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

namespace sluice::text::jinja {
namespace {

constexpr std::string_view kSpace = " \t\r\n\f\v";
constexpr std::size_t kMostBytes = std::size_t{16} << 20;

tl::unexpected<Error> cannot(std::string_view what, std::string_view name, const Value& value) {
  return fail(ErrorKind::usage, "{} '{}' of {} is not understood", what, name.substr(0, 40),
              value.kind());
}

Text stripped(const Text& text, std::string_view characters, bool left, bool right) {
  std::size_t begin = 0;
  std::size_t end = text.size();
  if (left) begin = std::min(text.bytes.find_first_not_of(characters), end);
  if (right && begin < end) {
    const std::size_t last = text.bytes.find_last_not_of(characters);
    end = last == std::string::npos ? begin : last + 1;
  }
  return text.part(begin, end - begin);
}

Text with_case(Text text, bool upper) {
  for (char& c : text.bytes) {
    if (upper && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (!upper && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

Text capitalized(const Text& text) {
  Text out = with_case(text, false);
  if (out.size() > 0) out.bytes[0] = with_case(out.part(0, 1), true).bytes[0];
  return out;
}

/// The number of characters of a text, members of a list or dictionary.
std::optional<std::int64_t> length_of(const Value& value) {
  std::size_t size = 0;
  if (const Text* text = value.as_text()) {
    size = text->length();
  } else if (const List* list = value.as_list()) {
    size = list->size();
  } else if (const Dictionary* dictionary = value.as_dictionary()) {
    size = dictionary->size();
  } else {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(size);
}

Value split(const Text& text, std::string_view separator) {
  List parts;
  std::size_t at = 0;
  while (true) {
    const std::size_t end = text.bytes.find(separator, at);
    if (end == std::string::npos) break;
    parts.push_back(Value::text(text.part(at, end - at)));
    at = end + separator.size();
  }
  parts.push_back(Value::text(text.part(at, text.size() - at)));
  return Value::list(std::move(parts));
}

Value split_at_space(const Text& text) {
  List parts;
  std::size_t at = 0;
  while ((at = text.bytes.find_first_not_of(kSpace, at)) != std::string::npos) {
    const std::size_t end = std::min(text.bytes.find_first_of(kSpace, at), text.size());
    parts.push_back(Value::text(text.part(at, end - at)));
    at = end;
  }
  return Value::list(std::move(parts));
}

Result<Text> replaced(const Text& text, std::string_view from, const Text& to) {
  Text out;
  std::size_t at = 0;
  while (!from.empty()) {
    const std::size_t found = text.bytes.find(from, at);
    if (found == std::string::npos) break;
    out.append(text.part(at, found - at));
    out.append(to);
    if (out.size() > kMostBytes) return fail(ErrorKind::usage, "a text grows beyond all bounds");
    at = found + from.size();
  }
  out.append(text.part(at, text.size() - at));
  return out;
}

Value items_of(const Dictionary& members) {
  List items;
  for (const auto& [key, value] : members) {
    items.push_back(Value::list({Value::text(key, kOtherData), value}));
  }
  return Value::list(std::move(items));
}

Result<Value> join(const List& list, const Value* separator) {
  Text out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0 && separator != nullptr) out.append(separator->to_text());
    out.append(list[i].to_text());
    if (out.size() > kMostBytes) return fail(ErrorKind::usage, "a text grows beyond all bounds");
  }
  return Value::text(std::move(out));
}

/// With indent=N: a member per line. Otherwise as Python's json.dumps.
Result<Value> to_json_text(const Value& value, const Arguments& arguments) {
  constexpr std::int64_t kMostIndent = 16;
  std::string json = python_json(value.to_json(), JsonForm::spaced);
  const Value* const indent = arguments.get(99, "indent");
  if (indent != nullptr && !indent->is_none()) {
    const std::int64_t* const spaces = indent->as_integer();
    if (spaces == nullptr || *spaces < 0 || *spaces > kMostIndent) {
      return fail(ErrorKind::usage, "tojson with an indent that is not 0 to {}", kMostIndent);
    }
    json = indented_json(json, static_cast<std::size_t>(*spaces));
    if (json.size() > kMostBytes) return fail(ErrorKind::usage, "a text grows beyond all bounds");
  }
  return Value::text(std::move(json), kOtherData);
}

Result<Value> list_filter(std::string_view name, const List& list, const Arguments& arguments) {
  if (name == "first") return list.empty() ? Value() : list.front();
  if (name == "last") return list.empty() ? Value() : list.back();
  if (name == "join") return join(list, arguments.get(0, "d"));
  if (name == "list") return Value::list(list);
  if (name == "reverse") return Value::list(List(list.rbegin(), list.rend()));
  if (name == "selectattr" || name == "rejectattr") {
    const Value* const attribute = arguments.get(0, "");
    const Value* const test = arguments.get(1, "");
    const Value* const operand = arguments.get(2, "");
    if (attribute == nullptr || attribute->as_text() == nullptr) {
      return cannot("the filter", name, Value::list(list));
    }
    List chosen;
    for (const Value& item : list) {
      const Value* const member = item.member(attribute->as_text()->bytes);
      const Value value = member == nullptr ? Value() : *member;
      bool holds = value.is_true();
      if (test != nullptr) {
        Arguments rest;
        if (operand != nullptr) rest.values.push_back(*operand);
        SLUICE_ASSIGN(holds, apply_test(test->to_text().bytes, value, rest));
      }
      if (holds == (name == "selectattr")) chosen.push_back(item);
    }
    return Value::list(std::move(chosen));
  }
  return cannot("the filter", name, Value::list(list));
}

/// As jinja2 reads a number: a whole one, then any, then what is asked for instead.
Result<Value> to_integer(const Text& text, const Arguments& arguments) {
  if (arguments.get(1, "base") != nullptr) return fail(ErrorKind::usage, "int() with a base");
  const std::string digits = stripped(text, kSpace, true, true).bytes;
  const char* const begin = digits.data() + (digits.starts_with('+') ? 1 : 0);
  const char* const end = digits.data() + digits.size();
  std::int64_t whole = 0;
  const auto [rest, error] = std::from_chars(begin, end, whole);
  if (error == std::errc::result_out_of_range) {
    return fail(ErrorKind::usage, "int() of a number of more than 63 bits");
  }
  if (error == std::errc() && rest == end) return Value::number(whole);
  double any = 0;
  const auto [left, fault] = std::from_chars(begin, end, any);
  if (fault == std::errc() && left == end && std::fabs(any) < 1e15) {
    return Value::number(static_cast<std::int64_t>(any));
  }
  const Value* const otherwise = arguments.get(0, "default");
  return otherwise == nullptr ? Value::number(0) : *otherwise;
}

Result<Value> text_filter(std::string_view name, const Text& text, const Arguments& arguments) {
  if (name == "trim") return Value::text(stripped(text, kSpace, true, true));
  if (name == "upper") return Value::text(with_case(text, true));
  if (name == "lower") return Value::text(with_case(text, false));
  if (name == "capitalize") return Value::text(capitalized(text));
  if (name == "safe") return Value::text(text);
  if (name == "first") return Value::text(text.part(0, text.place_of(1)));
  if (name == "replace") return call_method(name, Value::text(text), arguments);
  if (name == "int") return to_integer(text, arguments);
  return cannot("the filter", name, Value::text(text));
}

bool contains(const Value& all, const Value& part, bool& understood) {
  if (const Text* text = all.as_text(); text != nullptr && part.as_text() != nullptr) {
    return text->bytes.find(part.as_text()->bytes) != std::string::npos;
  }
  if (const List* list = all.as_list()) {
    return std::ranges::any_of(*list, [&](const Value& item) { return item.equals(part); });
  }
  if (all.as_dictionary() != nullptr || all.as_namespace() != nullptr) {
    return part.as_text() != nullptr && all.member(part.as_text()->bytes) != nullptr;
  }
  understood = false;
  return false;
}

Result<Value> arithmetic(std::string_view sign, const Value& left, const Value& right) {
  const std::int64_t* const a = left.as_integer();
  const std::int64_t* const b = right.as_integer();
  std::int64_t out = 0;
  bool overflow = false;
  if (a == nullptr || b == nullptr) return cannot("the operator", sign, left);
  if (sign == "+") {
    overflow = __builtin_add_overflow(*a, *b, &out);
  } else if (sign == "-") {
    overflow = __builtin_sub_overflow(*a, *b, &out);
  } else if (sign == "*") {
    overflow = __builtin_mul_overflow(*a, *b, &out);
  } else if (*b > 0 && (sign == "//" || sign == "%")) {
    const std::int64_t remainder = *a % *b;
    const std::int64_t rest = remainder < 0 ? remainder + *b : remainder;  // as Python has it
    out = sign == "%" ? rest : (*a - rest) / *b;
    overflow = *a < -(std::int64_t{1} << 62);
  } else {
    return cannot("the operator", sign, left);
  }
  if (overflow) return fail(ErrorKind::usage, "a number grows beyond all bounds");
  return Value::number(out);
}

}  // namespace

const Value* Arguments::get(std::size_t index, std::string_view name) const {
  if (index < unnamed()) return &values[index];
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return nullptr;
  return &values[unnamed() + static_cast<std::size_t>(found - names.begin())];
}

Result<Value> apply_filter(std::string_view name, const Value& value, const Arguments& arguments) {
  if (name == "default" || name == "d") {
    const Value* const otherwise = arguments.get(0, "default_value");
    const Value* const also_false = arguments.get(1, "boolean");
    const bool replace = value.is_undefined() ||
                         (also_false != nullptr && also_false->is_true() && !value.is_true());
    if (!replace) return value;
    return otherwise == nullptr ? Value::text("") : *otherwise;
  }
  if (name == "tojson") return to_json_text(value, arguments);
  if (name == "string") return Value::text(value.to_text());
  if (name == "length" || name == "count") {
    if (const auto length = length_of(value)) return Value::number(*length);
  }
  if (name == "int" && value.to_number() && std::fabs(*value.to_number()) < 1e15) {
    return Value::number(static_cast<std::int64_t>(*value.to_number()));
  }
  if (const Text* text = value.as_text()) return text_filter(name, *text, arguments);
  if (const List* list = value.as_list()) return list_filter(name, *list, arguments);
  if (const Dictionary* members = value.as_dictionary(); members != nullptr && name == "items") {
    return items_of(*members);
  }
  return cannot("the filter", name, value);
}

Result<bool> apply_test(std::string_view name, const Value& value, const Arguments& arguments) {
  if (name == "defined") return !value.is_undefined();
  if (name == "undefined") return value.is_undefined();
  if (name == "none") return value.is_none();
  if (name == "string") return value.as_text() != nullptr;
  if (name == "mapping") return value.as_dictionary() != nullptr;
  if (name == "sequence") return value.as_list() != nullptr || value.as_text() != nullptr;
  if (name == "iterable") {
    return value.as_list() != nullptr || value.as_text() != nullptr ||
           value.as_dictionary() != nullptr;
  }
  if (name == "boolean") return value.as_flag() != nullptr;
  if (name == "number") return value.to_number() && value.as_flag() == nullptr;
  if (name == "integer") return value.as_integer() != nullptr;
  if (name == "true") return value.as_flag() != nullptr && *value.as_flag();
  if (name == "false") return value.as_flag() != nullptr && !*value.as_flag();
  const Value* const operand = arguments.get(0, "");
  if (operand != nullptr && (name == "equalto" || name == "eq" || name == "ne")) {
    return value.equals(*operand) == (name != "ne");
  }
  return cannot("the test", name, value);
}

Result<Value> call_method(std::string_view name, const Value& value, const Arguments& arguments) {
  if (value.as_dictionary() != nullptr || value.as_namespace() != nullptr) {
    const Value* const key = arguments.get(0, "key");
    if (name == "items" && value.as_dictionary() != nullptr) {
      return items_of(*value.as_dictionary());
    }
    if (name == "get" && key != nullptr && key->as_text() != nullptr) {
      if (const Value* member = value.member(key->as_text()->bytes)) return *member;
      const Value* const otherwise = arguments.get(1, "default");
      return otherwise == nullptr ? Value::none() : *otherwise;
    }
    return cannot("the method", name, value);
  }
  const Text* const text = value.as_text();
  if (text == nullptr) return cannot("the method", name, value);
  const Value* const first = arguments.get(0, "");
  const Text* const operand = first == nullptr ? nullptr : first->as_text();
  if (first != nullptr && operand == nullptr) return cannot("the method", name, value);
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const std::string_view characters =
        operand == nullptr ? kSpace : std::string_view(operand->bytes);
    return Value::text(stripped(*text, characters, name != "rstrip", name != "lstrip"));
  }
  if (name == "upper" || name == "lower") return Value::text(with_case(*text, name == "upper"));
  if (name == "capitalize") return Value::text(capitalized(*text));
  if (name == "split" && arguments.values.size() <= 1) {
    if (operand == nullptr) return split_at_space(*text);
    if (operand->size() > 0) return split(*text, operand->bytes);
  }
  if (operand == nullptr) return cannot("the method", name, value);
  if (name == "startswith") return Value::flag(text->bytes.starts_with(operand->bytes));
  if (name == "endswith") return Value::flag(text->bytes.ends_with(operand->bytes));
  if (name == "replace") {
    const Value* const second = arguments.get(1, "");
    if (second != nullptr && second->as_text() != nullptr && arguments.values.size() == 2) {
      SLUICE_ASSIGN(Text out, replaced(*text, operand->bytes, *second->as_text()));
      return Value::text(std::move(out));
    }
  }
  return cannot("the method", name, value);
}

Result<Value> apply_operator(std::string_view sign, const Value& left, const Value& right) {
  if (sign == "==") return Value::flag(left.equals(right));
  if (sign == "!=") return Value::flag(!left.equals(right));
  if (sign == "in") {
    bool understood = true;
    const bool found = contains(right, left, understood);
    if (!understood) return cannot("the operator", sign, right);
    return Value::flag(found);
  }
  const bool joins = left.as_text() != nullptr && right.as_text() != nullptr;
  if (sign == "~" || (sign == "+" && joins)) {
    Text out = left.to_text();
    out.append(right.to_text());
    if (out.size() > kMostBytes) return fail(ErrorKind::usage, "a text grows beyond all bounds");
    return Value::text(std::move(out));
  }
  if (sign == "+" && left.as_list() != nullptr && right.as_list() != nullptr) {
    List all = *left.as_list();
    all.insert(all.end(), right.as_list()->begin(), right.as_list()->end());
    return Value::list(std::move(all));
  }
  const auto a = left.to_number();
  const auto b = right.to_number();
  if (!a || !b) return cannot("the operator", sign, a ? right : left);
  if (sign == "<") return Value::flag(*a < *b);
  if (sign == ">") return Value::flag(*a > *b);
  if (sign == "<=") return Value::flag(*a <= *b);
  if (sign == ">=") return Value::flag(*a >= *b);
  return arithmetic(sign, left, right);
}

}  // namespace sluice::text::jinja
