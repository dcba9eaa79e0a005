#include "base/trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/log.h"

namespace sluice {
namespace {

constexpr std::string_view kOpening = "[";
constexpr std::string_view kClosing = "\n]\n";

// The pass has a process of its own in the trace, and so has each drive.
constexpr int kPass = 1;
constexpr int kFirstDrive = 2;

/// Text for inside of quotes. Names come from files and may hold anything; what is not plain
/// ASCII is not worth knowing here.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c >= ' ' && c <= '~' ? c : '?';
  }
  return out += '"';
}

bool write_at(int descriptor, std::string_view text, std::uint64_t offset) {
  while (!text.empty()) {
    const ssize_t count =
        ::pwrite(descriptor, text.data(), text.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return true;
}

std::string process_name(int process, std::string_view name) {
  return fmt::format(R"({{"ph":"M","pid":{},"tid":1,"name":"process_name","args":{{"name":{}}}}})",
                     process, quoted(name));
}

}  // namespace

Result<std::unique_ptr<Trace>> Trace::create(const std::filesystem::path& path) {
  // O_NONBLOCK: a pipe that nobody reads is an error, not a wait. A file does not know of it.
  const int descriptor =
      ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC | O_NONBLOCK, 0666);
  const std::string empty = std::string(kOpening) + std::string(kClosing);
  const bool is_open = descriptor >= 0;
  if (!is_open || !write_at(descriptor, empty, 0)) {
    const int error = errno;
    if (is_open) ::close(descriptor);
    return fail(is_open ? ErrorKind::drive : ErrorKind::usage, "--trace: {}: cannot be written: {}",
                path.string(), std::strerror(error));
  }
  return std::unique_ptr<Trace>(new Trace(descriptor, path.string()));
}

Trace::Trace(int descriptor, std::string path)
    : descriptor_(descriptor), path_(std::move(path)), end_(kOpening.size()) {
  text_.reserve(kBufferBytes);
  const std::scoped_lock lock(mutex_);
  add(process_name(kPass, "the pass"));
}

Trace::~Trace() {
  flush();
  ::close(descriptor_);
}

double Trace::microseconds(Time time) const {
  return std::chrono::duration<double, std::micro>(time - start_).count();
}

void Trace::span(std::string_view kind, std::string_view name, std::size_t layer, Time begin,
                 Time end) {
  const std::string args = layer == kNoLayer
                               ? fmt::format(R"("kind":{})", quoted(kind))
                               : fmt::format(R"("kind":{},"layer":{})", quoted(kind), layer);
  const std::string event = fmt::format(
      R"({{"ph":"X","pid":{},"tid":1,"ts":{:.1f},"dur":{:.1f},"cat":{},"name":{},"args":{{{}}}}})",
      kPass, microseconds(begin), microseconds(end) - microseconds(begin), quoted(kind),
      quoted(name), args);
  const std::scoped_lock lock(mutex_);
  add(event);
}

void Trace::read(const Read& read) {
  const std::string name = quoted(read.name);
  const std::string category = quoted(read.purpose);
  const std::string args =
      fmt::format(R"("drive":{},"file":{},"offset":{},"bytes":{},"asked_as":{},"wait_ms":{:.3f})",
                  read.drive, quoted(read.file), read.offset, read.bytes, quoted(read.priority),
                  std::chrono::duration<double, std::milli>(read.arrived - read.asked).count());
  const std::scoped_lock lock(mutex_);
  const std::size_t process = kFirstDrive + read.drive;
  ++reads_;
  add(fmt::format(R"({{"ph":"b","pid":{},"tid":1,"id":{},"ts":{:.1f},"cat":{},"name":{},)"
                  R"("args":{{{}}}}})",
                  process, reads_, microseconds(read.asked), category, name, args));
  add(fmt::format(R"({{"ph":"e","pid":{},"tid":1,"id":{},"ts":{:.1f},"cat":{},"name":{}}})",
                  process, reads_, microseconds(read.arrived), category, name));
}

void Trace::name_drive(std::size_t drive, std::string_view path) {
  const std::string event =
      process_name(kFirstDrive + static_cast<int>(drive), fmt::format("drive {}", path));
  const std::scoped_lock lock(mutex_);
  add(event);
}

void Trace::flush() {
  const std::scoped_lock lock(mutex_);
  flush_locked();
}

void Trace::add(std::string_view event) {
  if (is_over_) return;
  // The buffer never grows: it is what was charged.
  if (text_.size() + event.size() + 2 + kClosing.size() > kBufferBytes) flush_locked();
  if (event.size() + 2 + kClosing.size() > kBufferBytes) return;
  text_ += is_first_ ? "\n" : ",\n";
  text_ += event;
  is_first_ = false;
}

void Trace::flush_locked() {
  if (is_over_ || text_.empty()) return;
  const std::size_t size = text_.size();
  text_ += kClosing;
  if (write_at(descriptor_, text_, end_)) {
    end_ += size;
  } else {
    is_over_ = true;
    log_warning("--trace: {}: cannot be written: {}; the trace ends here", path_,
                std::strerror(errno));
  }
  text_.clear();
}

}  // namespace sluice
