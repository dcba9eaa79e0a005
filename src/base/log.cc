#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>
#include <set>

namespace sluice {
namespace {

/// The one logger of the process: with what it noted once, the only global that Sluice has.
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

/// What log_note_once() said.
struct Said {
  std::mutex mutex;
  std::set<std::string> texts;
};
Said& said_once() {
  static Said said;
  return said;
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

void log_note_once(const std::string& text) {
  if (!logger().should_log(level_of(LogLevel::note))) return;
  Said& said = said_once();
  {
    const std::scoped_lock lock(said.mutex);
    if (!said.texts.insert(text).second) return;
  }
  log_line(LogLevel::note, text);
}

void forget_notes() {
  Said& said = said_once();
  const std::scoped_lock lock(said.mutex);
  said.texts.clear();
}

void log_line(LogLevel level, std::string_view text) { logger().log(level_of(level), "{}", text); }

}  // namespace sluice
