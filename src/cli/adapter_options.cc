#include "cli/adapter_options.h"

#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/flags.h"

namespace sluice::cli {
namespace {

constexpr std::string_view kNone = "none";
constexpr const char* kGroup = "Adapters (LoRA, in PEFT's format)";

engine::AdapterSource parse_source(const std::string& text) {
  const std::size_t sign = text.find('=');
  if (sign == std::string::npos || sign == 0 || sign + 1 == text.size()) {
    throw CLI::ValidationError("--lora", fmt::format("expected NAME=DIR, found \"{}\"", text));
  }
  return {text.substr(0, sign), text.substr(sign + 1)};
}

void add_source(const std::string& text, std::vector<engine::AdapterSource>& adapters) {
  engine::AdapterSource source = parse_source(text);
  if (source.name == kNone) {
    throw CLI::ValidationError(
        "--lora",
        fmt::format("{}: the name {} is reserved: it stands for no adapter", text, kNone));
  }
  for (const engine::AdapterSource& other : adapters) {
    if (other.name != source.name) continue;
    throw CLI::ValidationError("--lora", fmt::format("the name {} is there twice", source.name));
  }
  adapters.push_back(std::move(source));
}

std::vector<std::string> names_of(const ComputeOptions& options) {
  std::vector<std::string> names;
  for (const engine::AdapterSource& adapter : options.adapters) names.push_back(adapter.name);
  return names;
}

}  // namespace

void add_adapters(CLI::App& app, ComputeOptions& options) {
  app.add_option_function<std::vector<std::string>>(
         "--lora",
         [&options](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) add_source(text, options.adapters);
         },
         "An adapter and the name by which it is asked for; may be given more than once. It is "
         "computed beside the model's weights, which stay as they are")
      ->type_name("NAME=DIR")
      ->allow_extra_args(false)
      ->group(kGroup);
  add_size(app, "--lora-ram", options.adapter_ram,
           "Memory of --ram for adapters, at least the largest one's; those used longest ago make "
           "room. Default: as many as fit into an eighth of what is left, at least the largest")
      ->needs(app.get_option("--lora"))
      ->group(kGroup);
}

void add_one_adapter(CLI::App& app, ComputeOptions& options) {
  add_adapters(app, options);
  app.add_option("--use-lora", options.adapter,
                 "Which of several adapters to compute with, or none; with a single one: that one")
      ->type_name("NAME|none")
      ->needs(app.get_option("--lora"))
      ->group(kGroup);
}

Result<std::uint32_t> chosen_adapter(const ComputeOptions& options) {
  const std::vector<std::string> names = names_of(options);
  const auto named = [&](const std::string& name) -> std::uint32_t {
    for (std::uint32_t i = 0; i < names.size(); ++i) {
      if (names[i] == name) return i + 1;
    }
    return 0;
  };
  if (options.adapter) {
    const std::uint32_t number = named(*options.adapter);
    if (number > 0 || *options.adapter == kNone) return number;
    return fail(
        ErrorKind::usage, "--use-lora {}: no --lora has this name{}", *options.adapter,
        names.empty() ? std::string() : fmt::format("; there are {}", fmt::join(names, ", ")));
  }
  if (names.size() < 2) return static_cast<std::uint32_t>(names.size());
  return fail(ErrorKind::usage, "--use-lora NAME must say which of the adapters is meant: {}",
              fmt::join(names, ", "));
}

}  // namespace sluice::cli
