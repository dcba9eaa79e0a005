// What happened when, as a Chrome trace (chrome://tracing, Perfetto).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace sluice {

/// Writes events into a file that is valid JSON (an array of events) after every flush: whatever
/// ends the process, what was flushed can be read. Thread-safe. A file that cannot be written any
/// more ends the trace with a warning, never the run.
class Trace {
 public:
  using Time = Clock::time_point;
  static constexpr std::size_t kNoLayer = static_cast<std::size_t>(-1);

  /// Makes the file, or empties it. Fails with ErrorKind::usage if it cannot be written.
  static Result<std::unique_ptr<Trace>> create(const std::filesystem::path& path);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// Something the pass's thread did, or waited for: such spans lie inside each other or apart.
  void span(std::string_view kind, std::string_view name, std::size_t layer, Time begin, Time end);

  struct Read {
    std::size_t drive = 0;  ///< as named by name_drive()
    std::string_view name;  ///< of the block
    std::string_view file;
    std::string_view purpose;
    std::string_view priority;  ///< when it was asked for
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;  ///< that arrived; 0 when the read failed
    Time asked;
    Time arrived;
  };
  /// A read; any number may be under way at a time.
  void read(const Read& read);
  void name_drive(std::size_t drive, std::string_view path);

  /// Writes what is in memory.
  void flush();

  /// What a trace holds in memory.
  static std::uint64_t memory_bytes() { return kBufferBytes; }

 private:
  static constexpr std::size_t kBufferBytes = std::size_t{128} << 10;

  Trace(int descriptor, std::string path);
  double microseconds(Time time) const;
  void add(std::string_view event);
  void flush_locked();

  const int descriptor_;
  const std::string path_;
  const Time start_ = Clock::now();
  std::mutex mutex_;       // guards what follows
  std::string text_;       // events that are not in the file yet
  std::uint64_t end_ = 0;  // of the events in the file; the closing bracket follows
  std::uint64_t reads_ = 0;
  bool is_first_ = true;
  bool is_over_ = false;
};

/// A span from here to the end of the scope; nothing without a trace.
class TraceSpan {
 public:
  /// `kind` and `name` must live as long as this.
  TraceSpan(Trace* trace, std::string_view kind, std::string_view name, std::size_t layer)
      : trace_(trace), kind_(kind), name_(name), layer_(layer) {
    if (trace_ != nullptr) begin_ = Clock::now();
  }
  ~TraceSpan() {
    if (trace_ != nullptr) trace_->span(kind_, name_, layer_, begin_, Clock::now());
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  Trace* const trace_;
  const std::string_view kind_;
  const std::string_view name_;
  const std::size_t layer_;
  Trace::Time begin_;
};

}  // namespace sluice
