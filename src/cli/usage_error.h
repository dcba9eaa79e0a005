// What the parser of the command line says, in our words.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace sluice::cli {

/// One sentence that names the flag or the argument.
std::string usage_error(const CLI::ParseError& error);

}  // namespace sluice::cli
