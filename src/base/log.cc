#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>
#include <set>

namespace sluice {
namespace {

/// The one logger of the process: with what it said once, the only global that Sluice has.
spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>("sluice",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("sluice: %v");
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *instance;
}

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::note:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::off:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}

}  // namespace

void set_log_level(LogLevel level) { logger().set_level(level_of(level)); }

void log_note_once(std::string text) {
  static std::mutex mutex;
  static std::set<std::string> said;
  {
    const std::scoped_lock lock(mutex);
    if (!said.insert(text).second) return;
  }
  log_line(LogLevel::note, text);
}

void log_line(LogLevel level, std::string_view text) { logger().log(level_of(level), "{}", text); }

}  // namespace sluice
