// How --help looks.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace sluice::cli {

/// Lines of at most 100 columns, options in two columns.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  /// Names the flags that must be given.
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* app) const override;
};

}  // namespace sluice::cli
