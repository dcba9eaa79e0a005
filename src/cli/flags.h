// Values of flags: parsed and checked in one place, so that every message names its flag.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice::cli {

/// A whole number in [least, most]. Fails with ErrorKind::usage, saying what is expected.
Result<std::uint64_t> parse_count(std::string_view text, std::uint64_t least, std::uint64_t most);

/// A finite number in [least, most].
Result<float> parse_real(std::string_view text, float least, float most);

/// "1,2,3" (blanks around the commas are allowed): at least one id, none negative.
Result<std::vector<std::int32_t>> parse_ids(std::string_view text);

/// "1,2,3"
std::string join_ids(const std::vector<std::int32_t>& ids);

/// Adds a flag whose text goes through `parse` into `take`.
template <class Parse, class Take>
CLI::Option* add_parsed(CLI::App& app, const std::string& name, const std::string& type,
                        const std::string& description, Parse parse, Take take) {
  return app
      .add_option_function<std::string>(
          name,
          [name, parse, take](const std::string& text) {
            auto value = parse(text);
            if (!value) throw CLI::ValidationError(name, value.error().message);
            take(std::move(*value));
          },
          description)
      ->type_name(type);
}

/// A flag that takes a size like 6G.
CLI::Option* add_size(CLI::App& app, const std::string& name, std::optional<std::uint64_t>& target,
                      const std::string& description);

/// A flag that takes a whole number.
template <class Target>
CLI::Option* add_count(CLI::App& app, const std::string& name, Target& target, std::uint64_t least,
                       std::uint64_t most, const std::string& description) {
  return add_parsed(
      app, name, "N", description,
      [least, most](const std::string& text) { return parse_count(text, least, most); },
      [&target](std::uint64_t value) { target = static_cast<Target>(value); });
}
template <class Number>
CLI::Option* add_count(CLI::App& app, const std::string& name, std::optional<Number>& target,
                       std::uint64_t least, std::uint64_t most, const std::string& description) {
  return add_parsed(
      app, name, "N", description,
      [least, most](const std::string& text) { return parse_count(text, least, most); },
      [&target](std::uint64_t value) { target = static_cast<Number>(value); });
}

/// A flag that takes a finite number.
CLI::Option* add_real(CLI::App& app, const std::string& name, float& target, float least,
                      float most, const std::string& description);

/// A flag that takes token ids.
CLI::Option* add_ids(CLI::App& app, const std::string& name, std::vector<std::int32_t>& target,
                     const std::string& description);

/// Makes an empty name of a file, a folder or anything else an error, for all commands: it would
/// pass for a flag that is not given.
void refuse_empty_names(CLI::App& app);

}  // namespace sluice::cli
