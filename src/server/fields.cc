#include "server/fields.h"

#include <cmath>

#include "text/utf8.h"

namespace sluice::server {
const Json* Fields::get(std::string_view name) {
  known_.emplace(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::string Fields::name_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

ApiResult<std::optional<double>> Fields::number(std::string_view name, double least, double most) {
  const Json* const value = get(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>()) || value->get<double>() < least ||
      value->get<double>() > most) {
    return refuse(name_of(name), "must be a number from {} to {}", least, most);
  }
  return value->get<double>();
}

ApiResult<std::optional<std::int64_t>> Fields::integer(std::string_view name, std::int64_t least,
                                                       std::int64_t most) {
  const Json* const value = get(name);
  if (value == nullptr) return std::nullopt;
  const bool fits = value->is_number_unsigned() ? value->get<std::uint64_t>() <= INT64_MAX
                                                : value->is_number_integer();
  if (!fits || value->get<std::int64_t>() < least || value->get<std::int64_t>() > most) {
    return refuse(name_of(name), "must be a whole number from {} to {}", least, most);
  }
  return value->get<std::int64_t>();
}

ApiResult<std::optional<bool>> Fields::boolean(std::string_view name) {
  const Json* const value = get(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) return refuse(name_of(name), "must be true or false");
  return value->get<bool>();
}

ApiResult<std::optional<std::string>> Fields::text(std::string_view name) {
  const Json* const value = get(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return refuse(name_of(name), "must be a string");
  return value->get<std::string>();
}

ApiResult<std::vector<std::string>> Fields::texts(std::string_view name, std::size_t most) {
  const Json* const value = get(name);
  std::vector<std::string> texts;
  if (value == nullptr) return texts;
  const auto add = [&](const Json& text) {
    if (!text.is_string() || text.get_ref<const std::string&>().empty()) return false;
    texts.push_back(text.get<std::string>());
    return true;
  };
  bool good = value->is_array() ? value->size() <= most : add(*value);
  if (value->is_array()) {
    for (std::size_t i = 0; good && i < value->size(); ++i) good = add((*value)[i]);
  }
  if (!good) {
    return refuse(name_of(name), "must be a string or a list of up to {} strings, none empty",
                  most);
  }
  return texts;
}

ApiStatus Fields::only(std::string_view name, std::initializer_list<Json> values) {
  const Json* const value = get(name);
  if (value == nullptr) return {};
  std::string list;
  for (const Json& each : values) {
    if (*value == each) return {};
    list += (list.empty() ? "" : ", ") + each.dump();
  }
  ApiError error = {400, fmt::format("{}: is not supported", name_of(name)),
                    "invalid_request_error", name_of(name), "unsupported_value"};
  if (!list.empty()) error.message += " except as " + list;
  return tl::unexpected(std::move(error));
}

ApiStatus Fields::finish() const {
  for (const auto& [name, value] : object_.items()) {
    if (value.is_null() || known_.contains(name)) continue;
    const std::string full = name_of(std::string_view(name).substr(0, 80));
    return tl::unexpected(ApiError{400, full + ": is not supported", "invalid_request_error", full,
                                   "unknown_parameter"});
  }
  return {};
}

ApiResult<Json> parse_body(std::string_view body, std::size_t most_values) {
  if (text::first_invalid_utf8(body)) {
    return tl::unexpected(ApiError{400, "the body is not UTF-8"});
  }
  text::JsonRules rules;
  rules.unique_names = true;
  rules.values = most_values;
  auto json = text::parse_json(body, "the body", ErrorKind::usage, rules);
  if (!json) return tl::unexpected(ApiError{400, json.error().message});
  if (!json->is_object()) return tl::unexpected(ApiError{400, "the body is not a JSON object"});
  return std::move(*json);
}

}  // namespace sluice::server
