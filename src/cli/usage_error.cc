#include "cli/usage_error.h"

#include <fmt/format.h>

#include <string_view>

namespace sluice::cli {
namespace {

constexpr std::string_view kTooMany = ": At Most 1 required but received ";
constexpr std::string_view kNone = ": 1 required ";
constexpr std::string_view kMissing = " missing";

}  // namespace

std::string usage_error(const CLI::ParseError& error) {
  std::string what = error.what();
  if (const auto at = what.find(kTooMany); at != std::string::npos) {
    return fmt::format("{}: is given {} times; give it once", what.substr(0, at),
                       what.substr(at + kTooMany.size()));
  }
  if (const auto at = what.find(kNone); at != std::string::npos && what.ends_with(kMissing)) {
    const auto begin = at + kNone.size();
    return fmt::format("{}: needs a value, {}", what.substr(0, at),
                       what.substr(begin, what.size() - kMissing.size() - begin));
  }
  return what;
}

}  // namespace sluice::cli
