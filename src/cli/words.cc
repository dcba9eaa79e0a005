#include "cli/words.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/size.h"
#include "cli/progress.h"

namespace sluice::cli {

std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string as_flag(std::uint64_t bytes) {
  if (bytes % kGiB == 0) return fmt::format("{}G", bytes / kGiB);
  if (bytes % kMiB == 0) return fmt::format("{}M", bytes / kMiB);
  return fmt::format("{}", bytes);
}

std::string duration(double seconds) {
  if (seconds < 0.0995) return fmt::format("{:.2g} ms", seconds * 1000);
  if (seconds < 0.995) return fmt::format("{:.2f} s", seconds);
  return seconds < 9.95 ? fmt::format("{:.1f} s", seconds) : format_seconds(seconds);
}

std::string dumped(const nlohmann::ordered_json& document) {
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace sluice::cli
