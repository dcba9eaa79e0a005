#include "text/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice::text {
namespace {

constexpr std::size_t kLongName = 80;  // bytes of a name in a message

// Builds a value from parser events. Unlike the library's own builder it bounds the nesting and
// sees how numbers were written.
class Builder {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;

  explicit Builder(const JsonRules& rules) : rules_(rules) {}

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(number_integer_t value) { return add(value); }
  bool number_unsigned(number_unsigned_t value) { return add(value); }
  bool number_float(number_float_t value, const std::string& written) {
    if (written.find_first_of(".eE") != std::string::npos) return add(value);
    return add(Json::binary(Json::binary_t::container_type(written.begin(), written.end())));
  }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { return refuse("binary data"); }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    auto& object = open_.back()->get_ref<Json::object_t&>();
    if (object.size() == kJsonMembers) {
      return refuse(fmt::format("an object with more than {} members", kJsonMembers));
    }
    const auto member = [&](std::size_t at) {
      return object.begin() + static_cast<std::ptrdiff_t>(at);
    };
    std::vector<std::uint16_t>& sorted = sorted_.back();
    const auto known = std::lower_bound(
        sorted.begin(), sorted.end(), name,
        [&](std::size_t at, const std::string& each) { return member(at)->first < each; });
    if (known == sorted.end() || member(*known)->first != name) {
      sorted.insert(known, static_cast<std::uint16_t>(object.size()));
      object.emplace_back(std::move(name), nullptr);
      member_ = &object.back().second;
      return true;
    }
    if (rules_.unique_names) {
      std::string escaped;
      append_json_escaped(std::string_view(name).substr(0, kLongName), escaped);
      return refuse(fmt::format("an object has the name \"{}\" twice", escaped));
    }
    member_ = &member(*known)->second;
    return true;
  }
  bool parse_error(std::size_t offset, const std::string&, const nlohmann::json::exception&) {
    error_ = fmt::format("not valid JSON at byte {}", offset);
    return false;
  }

  const std::string& error() const { return error_; }
  Json take() { return std::move(root_); }

 private:
  template <class Value>
  bool add(Value&& value) {
    if (!count()) return false;
    place() = std::forward<Value>(value);
    return true;
  }

  // Where the next value goes. Pointers into open containers stay good: a container grows only
  // while it is the innermost one, and none of its elements is open then.
  Json& place() {
    if (open_.empty()) return root_;
    if (open_.back()->is_object()) return *member_;
    return open_.back()->emplace_back();
  }

  bool open(Json container) {
    if (open_.size() == kJsonDepth) {
      return refuse(fmt::format("nested more than {} deep", kJsonDepth));
    }
    if (!count()) return false;
    Json& value = place();
    value = std::move(container);
    open_.push_back(&value);
    sorted_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    sorted_.pop_back();
    return true;
  }
  bool count() {
    return ++values_ <= rules_.values || refuse(fmt::format("more than {} values", rules_.values));
  }
  bool refuse(std::string why) {
    error_ = std::move(why);
    return false;
  }

  const JsonRules& rules_;
  std::size_t values_ = 0;
  Json root_;
  std::vector<Json*> open_;
  // Of each open object, its members by their names: its own search goes through all of them.
  std::vector<std::vector<std::uint16_t>> sorted_;
  Json* member_ = nullptr;
  std::string error_;
};

// Python's repr: the shortest digits that read back as the same number; an exponent below 1e-4 and
// from 1e16 on; always a point or an exponent.
std::string python_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  char buffer[40];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, std::abs(value), std::chars_format::scientific);
  const std::string_view written(buffer, static_cast<std::size_t>(end.ptr - buffer));
  const std::size_t e = written.find('e');
  std::string digits(written.substr(0, e));
  std::erase(digits, '.');
  int exponent = 0;
  const std::size_t sign = written[e + 1] == '+' ? 1 : 0;
  std::from_chars(written.data() + e + 1 + sign, written.data() + written.size(), exponent);

  std::string text = std::signbit(value) ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    text += digits[0];
    if (digits.size() > 1) text += "." + digits.substr(1);
    return text + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0)
    return text + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return text + digits + std::string(whole - digits.size(), '0') + ".0";
  return text + digits.substr(0, whole) + "." + digits.substr(whole);
}

class Writer {
 public:
  explicit Writer(JsonForm form)
      : sorted_(form == JsonForm::compact_sorted),
        comma_(sorted_ ? "," : ", "),
        colon_(sorted_ ? ":" : ": ") {}

  void write(const Json& value) {
    switch (value.type()) {
      case Json::value_t::null:
      case Json::value_t::discarded:
        text_ += "null";
        return;
      case Json::value_t::boolean:
        text_ += value.get<bool>() ? "true" : "false";
        return;
      case Json::value_t::number_integer:
        text_ += std::to_string(value.get<std::int64_t>());
        return;
      case Json::value_t::number_unsigned:
        text_ += std::to_string(value.get<std::uint64_t>());
        return;
      case Json::value_t::number_float:
        text_ += python_float(value.get<double>());
        return;
      case Json::value_t::binary:
        text_.append(value.get_binary().begin(), value.get_binary().end());
        return;
      case Json::value_t::string:
        write_string(value.get_ref<const std::string&>());
        return;
      case Json::value_t::array:
        write_array(value);
        return;
      case Json::value_t::object:
        write_object(value);
        return;
    }
  }
  std::string take() { return std::move(text_); }

 private:
  void write_string(std::string_view string) {
    text_ += '"';
    append_json_escaped(string, text_);
    text_ += '"';
  }
  void write_array(const Json& array) {
    text_ += '[';
    bool first = true;
    for (const Json& element : array) {
      if (!std::exchange(first, false)) text_ += comma_;
      write(element);
    }
    text_ += ']';
  }
  void write_object(const Json& object) {
    using Member = Json::object_t::value_type;
    std::vector<const Member*> members;
    for (const Member& member : object.get_ref<const Json::object_t&>()) members.push_back(&member);
    if (sorted_) {  // bytes of UTF-8 sort as code points do
      std::sort(members.begin(), members.end(),
                [](const Member* a, const Member* b) { return a->first < b->first; });
    }
    text_ += '{';
    for (const Member* member : members) {
      if (member != members.front()) text_ += comma_;
      write_string(member->first);
      text_ += colon_;
      write(member->second);
    }
    text_ += '}';
  }

  const bool sorted_;
  const std::string_view comma_;
  const std::string_view colon_;
  std::string text_;
};

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view what, ErrorKind kind,
                        const JsonRules& rules) {
  Builder builder(rules);
  if (text.starts_with("\xEF\xBB\xBF"))
    return fail(kind, "{}: starts with a byte order mark", what);
  if (!Json::sax_parse(text, &builder)) return fail(kind, "{}: {}", what, builder.error());
  return builder.take();
}

bool is_json(std::string_view text) { return parse_json(text, {}, ErrorKind::usage).has_value(); }

std::string python_json(const Json& value, JsonForm form) {
  Writer writer(form);
  writer.write(value);
  return writer.take();
}

void append_json_escaped(std::string_view text, std::string& out) {
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\b':
        out += "\\b";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
}

bool is_json_number(const Json& value) { return value.is_number() || value.is_binary(); }

std::string indented_json(std::string_view spaced, std::size_t indent) {
  std::string out;
  std::size_t depth = 0;
  bool in_string = false;
  const auto new_line = [&] { out += '\n' + std::string(depth * indent, ' '); };
  for (std::size_t at = 0; at < spaced.size(); ++at) {
    const char c = spaced[at];
    const bool is_empty = spaced.substr(at, 2) == "{}" || spaced.substr(at, 2) == "[]";
    if (in_string && c == '\\') {
      out += spaced.substr(at++, 2);
    } else if (in_string || c == '"') {
      in_string = in_string != (c == '"');
      out += c;
    } else if (is_empty) {
      out += spaced.substr(at++, 2);
    } else if (c == '{' || c == '[') {
      out += c;
      ++depth;
      new_line();
    } else if (c == '}' || c == ']') {
      --depth;
      new_line();
      out += c;
    } else if (c == ',') {
      out += c;
      new_line();
      ++at;  // the space behind it
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace sluice::text
