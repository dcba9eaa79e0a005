#include "cli/flags.h"

#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include "base/size.h"

namespace sluice::cli {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n\r") - first + 1);
}

/// What a message quotes of a value that may be anything.
std::string_view shown(std::string_view text) { return text.substr(0, 40); }

/// Whether its value is a name. What is a text may be empty, and numbers are checked when parsed.
bool is_of_names(const CLI::Option* option) {
  const std::string flag = option->get_name();
  for (const char* text : {"--prompt", "--system", "--stop", "TEXT"}) {
    if (flag == text) return false;
  }
  const std::string type = option->get_type_name();
  for (const char* name : {"FILE", "DIR", "PATH", "MODEL", "NAME", "ADDRESS", "TEXT"}) {
    if (type.starts_with(name)) return true;
  }
  return type.ends_with(".npy");
}

}  // namespace

Result<std::uint64_t> parse_count(std::string_view text, std::uint64_t least, std::uint64_t most) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || value < least || value > most) {
    return fail(ErrorKind::usage, "'{}' is not a whole number from {} to {}", shown(text), least,
                most);
  }
  return value;
}

Result<float> parse_real(std::string_view text, float least, float most) {
  float value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || !std::isfinite(value) || value < least ||
      value > most) {
    return fail(ErrorKind::usage, "'{}' is not a number from {} to {}", shown(text), least, most);
  }
  return value;
}

Result<std::vector<std::int32_t>> parse_ids(std::string_view text) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
  std::vector<std::int32_t> ids;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const auto id = parse_count(trimmed(rest.substr(0, comma)), 0, kMost);
    if (!id) {
      return fail(ErrorKind::usage,
                  "'{}' is not a list of token ids: id number {} must be a whole number, as in "
                  "1,2,3",
                  shown(text), ids.size() + 1);
    }
    ids.push_back(static_cast<std::int32_t>(*id));
    if (comma == std::string_view::npos) return ids;
    rest.remove_prefix(comma + 1);
  }
}

std::string join_ids(const std::vector<std::int32_t>& ids) {
  return fmt::format("{}", fmt::join(ids, ","));
}

CLI::Option* add_size(CLI::App& app, const std::string& name, std::optional<std::uint64_t>& target,
                      const std::string& description) {
  return add_parsed(app, name, "SIZE", description, parse_size,
                    [&target](std::uint64_t value) { target = value; });
}

CLI::Option* add_real(CLI::App& app, const std::string& name, float& target, float least,
                      float most, const std::string& description) {
  return add_parsed(
      app, name, "X", description,
      [least, most](const std::string& text) { return parse_real(text, least, most); },
      [&target](float value) { target = value; });
}

CLI::Option* add_ids(CLI::App& app, const std::string& name, std::vector<std::int32_t>& target,
                     const std::string& description) {
  return add_parsed(app, name, "1,2,3", description, parse_ids,
                    [&target](std::vector<std::int32_t> ids) { target = std::move(ids); });
}

void refuse_empty_names(CLI::App& app) {
  const auto is_named = [](const std::string& text) {
    return std::string(text.empty() ? "the name is empty" : "");
  };
  for (CLI::Option* option : app.get_options()) {
    if (is_of_names(option)) option->check(is_named, "");
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    refuse_empty_names(*command);
  }
}

}  // namespace sluice::cli
