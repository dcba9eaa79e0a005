// Notes to the user, on stderr. stdout carries answers only.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace sluice {

/// Messages below the level are dropped. The default is `note`.
enum class LogLevel { debug, note, warning, off };
void set_log_level(LogLevel level);

void log_line(LogLevel level, std::string_view text);

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_note(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::note, fmt::format(format, std::forward<Args>(args)...));
}
/// The same text once in the life of the process, however often it is true.
void log_note_once(const std::string& text);
/// As if nothing had been noted yet; for tests.
void forget_notes();
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::warning, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace sluice
