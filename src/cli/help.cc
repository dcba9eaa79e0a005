#include "cli/help.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace sluice::cli {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kNameColumns = 26;

/// `name` on the left; `description` in lines on the right.
std::string in_columns(std::string_view name, std::string_view description) {
  std::string out = fmt::format("  {:<{}}", name, kNameColumns - 2);
  std::size_t column = out.size();
  const auto new_line = [&] {
    out += '\n' + std::string(kNameColumns, ' ');
    column = kNameColumns;
  };
  if (column > kNameColumns) new_line();
  while (!description.empty()) {
    const std::string_view word = description.substr(0, description.find(' '));
    description.remove_prefix(std::min(word.size() + 1, description.size()));
    if (column > kNameColumns && column + 1 + word.size() > kColumns) new_line();
    if (column > kNameColumns) out += ' ';
    out += word;
    column += word.size() + 1;
  }
  return out + '\n';
}

}  // namespace

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
  for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
  return text;
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  constexpr std::string_view kBehind = "[OPTIONS]";
  std::string text = CLI::Formatter::make_usage(app, std::move(name));
  const std::size_t at = text.find(kBehind);
  if (at == std::string::npos) return text;
  std::string flags;
  for (const CLI::Option* option : app->get_options(
           [](const CLI::Option* each) { return each->nonpositional() && each->get_required(); })) {
    flags += fmt::format(" {} {}", option->get_name(), option->get_type_name());
  }
  return text.insert(at + kBehind.size(), flags);
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  std::string name = make_option_name(option, is_positional);
  if (!is_positional && option->get_type_size() != 0) name += ' ' + option->get_type_name();
  return in_columns(name, option->get_description());
}

std::string HelpFormatter::make_subcommand(const CLI::App* app) const {
  return in_columns(app->get_name(), app->get_description());
}

}  // namespace sluice::cli
