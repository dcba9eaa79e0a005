#include "text/json.h"

#include <algorithm>
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

bool is_json_number(const Json& value) { return value.is_number() || value.is_binary(); }

}  // namespace sluice::text
