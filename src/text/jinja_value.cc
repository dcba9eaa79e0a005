#include "text/jinja_value.h"

#include <algorithm>

namespace sluice::text::jinja {

void Text::append(const Text& other) {
  bytes += other.bytes;
  origins.insert(origins.end(), other.origins.begin(), other.origins.end());
}

namespace {

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

}  // namespace

std::size_t Text::length() const {
  return static_cast<std::size_t>(std::ranges::count_if(bytes, begins_character));
}

std::size_t Text::place_of(std::size_t character) const {
  for (std::size_t at = 0; at < size(); ++at) {
    if (begins_character(bytes[at]) && character-- == 0) return at;
  }
  return size();
}

Text Text::part(std::size_t first, std::size_t count) const {
  Text part;
  part.bytes = bytes.substr(first, count);
  const auto begin = origins.begin() + static_cast<std::ptrdiff_t>(first);
  part.origins.assign(begin, begin + static_cast<std::ptrdiff_t>(part.bytes.size()));
  return part;
}

Value Value::list(List value) {
  std::size_t weight = 1;
  std::size_t levels = 0;
  bool holds_namespace = false;
  for (const Value& item : value) {
    weight += item.weight_;
    levels = std::max(levels, item.levels_);
    holds_namespace = holds_namespace || item.holds_namespace();
  }
  Value made(Held(std::make_shared<List>(std::move(value))));
  made.weight_ = weight;
  made.levels_ = levels + 1;
  made.holds_namespace_ = holds_namespace;
  return made;
}

Value Value::dictionary(Dictionary value) {
  std::size_t weight = 1;
  std::size_t levels = 0;
  bool holds_namespace = false;
  for (const auto& [key, member] : value) {
    weight += member.weight_;
    levels = std::max(levels, member.levels_);
    holds_namespace = holds_namespace || member.holds_namespace();
  }
  Value made(Held(std::make_shared<Dictionary>(std::move(value))));
  made.weight_ = weight;
  made.levels_ = levels + 1;
  made.holds_namespace_ = holds_namespace;
  return made;
}

const List* Value::as_list() const {
  const auto* list = std::get_if<std::shared_ptr<List>>(&held_);
  return list == nullptr ? nullptr : list->get();
}

const Dictionary* Value::as_dictionary() const {
  const auto* dictionary = std::get_if<std::shared_ptr<Dictionary>>(&held_);
  return dictionary == nullptr ? nullptr : dictionary->get();
}

Value Value::from_json(const Json& json, Origin origin) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return flag(json.get<bool>());
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return number(json.get<std::int64_t>());
    case Json::value_t::number_float:
      return Value(Held(json.get<double>()));
    case Json::value_t::string:
      return text(json.get_ref<const std::string&>(), origin);
    case Json::value_t::array: {
      List items;
      for (const Json& item : json) items.push_back(from_json(item, origin));
      return list(std::move(items));
    }
    case Json::value_t::object: {
      Dictionary members;
      for (const auto& [key, value] : json.items()) {
        members.emplace_back(key, from_json(value, origin));
      }
      return dictionary(std::move(members));
    }
    default:
      break;
  }
  return none();
}

bool Value::is_true() const {
  if (is_undefined() || is_none()) return false;
  if (const bool* value = as_flag()) return *value;
  if (const std::int64_t* value = as_integer()) return *value != 0;
  if (const double* value = as_real()) return *value != 0;
  if (const Text* value = as_text()) return value->size() > 0;
  if (const List* value = as_list()) return !value->empty();
  if (const Dictionary* value = as_dictionary()) return !value->empty();
  return true;
}

std::optional<double> Value::to_number() const {
  if (const bool* value = as_flag()) return *value ? 1 : 0;
  if (const std::int64_t* value = as_integer()) return static_cast<double>(*value);
  if (const double* value = as_real()) return *value;
  return std::nullopt;
}

Text Value::to_text() const {
  if (is_undefined()) return {};
  if (is_none()) return {"None", kTemplate};
  if (const bool* value = as_flag()) return {*value ? "True" : "False", kTemplate};
  if (const Text* value = as_text()) return *value;
  if (const Function* value = as_function()) {
    return {fmt::format("<Macro '{}'>", value->name), kOtherData};
  }
  return {python_json(to_json(), JsonForm::spaced), kOtherData};
}

Json Value::to_json() const {
  if (const bool* value = as_flag()) return *value;
  if (const std::int64_t* value = as_integer()) return *value;
  if (const double* value = as_real()) return *value;
  if (const Text* value = as_text()) return value->bytes;
  if (const List* value = as_list()) {
    Json json = Json::array();
    for (const Value& item : *value) json.push_back(item.to_json());
    return json;
  }
  if (const Dictionary* value = as_dictionary()) {
    Json json = Json::object();
    for (const auto& [key, member] : *value) json[key] = member.to_json();
    return json;
  }
  return nullptr;
}

const char* Value::kind() const {
  if (is_undefined()) return "nothing";
  if (is_none()) return "none";
  if (as_flag() != nullptr) return "true or false";
  if (to_number()) return "a number";
  if (as_text() != nullptr) return "a string";
  if (as_list() != nullptr) return "a list";
  if (as_function() != nullptr) return "a function";
  return "a dictionary";
}

bool Value::equals(const Value& other) const {
  const auto number = to_number();
  const auto other_number = other.to_number();
  if (number && other_number) return *number == *other_number;
  if (as_text() != nullptr && other.as_text() != nullptr) {
    return as_text()->bytes == other.as_text()->bytes;
  }
  if (const List* list = as_list(); list != nullptr && other.as_list() != nullptr) {
    return std::ranges::equal(*list, *other.as_list(),
                              [](const Value& a, const Value& b) { return a.equals(b); });
  }
  if (as_dictionary() != nullptr && other.as_dictionary() != nullptr) {
    return to_json() == other.to_json();
  }
  return (is_none() && other.is_none()) || (is_undefined() && other.is_undefined());
}

const Value* Value::member(std::string_view name) const {
  const Dictionary* members = as_dictionary();
  if (const Namespace* space = as_namespace()) members = space->members.get();
  if (members == nullptr) return nullptr;
  const auto found = std::ranges::find(
      *members, name, [](const auto& each) { return std::string_view(each.first); });
  return found == members->end() ? nullptr : &found->second;
}

}  // namespace sluice::text::jinja
