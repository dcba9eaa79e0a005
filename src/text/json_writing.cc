// JSON out: as Python writes it.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "text/json.h"

namespace sluice::text {
namespace {

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
    if (digits.size() > 1) text.append(".").append(digits, 1);
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

std::string indented_json(std::string_view spaced, std::size_t indent) {
  std::string out;
  std::size_t depth = 0;
  bool in_string = false;
  const auto new_line = [&] { out += '\n' + std::string(depth * indent, ' '); };
  for (std::size_t at = 0; at < spaced.size(); ++at) {
    const char c = spaced[at];
    const bool is_empty = spaced.substr(at, 2) == "{}" || spaced.substr(at, 2) == "[]";
    if (in_string ? c == '\\' : is_empty) {
      out += spaced.substr(at++, 2);
    } else if (in_string || c == '"') {
      in_string = in_string != (c == '"');
      out += c;
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
