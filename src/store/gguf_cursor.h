// A place in the header of a GGUF file, which moves on as the header is read.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "io/file.h"
#include "store/faults.h"

namespace sluice::store {

/// A longer header is refused. The largest vocabularies in the field make some 20 MB.
inline constexpr std::uint64_t kMaxGgufHeaderBytes = std::uint64_t{512} << 20;

/// The start of a file, read as far as it is looked at.
class GgufWindow {
 public:
  /// All that there is of it, in a file of `file_bytes`.
  GgufWindow(std::string_view bytes, std::uint64_t file_bytes)
      : bytes_(bytes), file_bytes_(file_bytes) {}
  /// Both must outlive the window; what is read is kept in `room`.
  GgufWindow(const io::File& file, std::string& room)
      : file_(&file), room_(&room), file_bytes_(file.size()) {}

  std::uint64_t file_bytes() const { return file_bytes_; }
  std::string_view bytes() const { return file_ != nullptr ? std::string_view(*room_) : bytes_; }
  const std::optional<Error>& error() const { return error_; }

  /// Makes bytes [0, end) available; false when the file, or the limit, ends before.
  bool reach(std::uint64_t end);

 private:
  std::string_view bytes_;
  const io::File* file_ = nullptr;
  std::string* room_ = nullptr;
  std::uint64_t file_bytes_;
  std::optional<Error> error_;
};

/// A member that returns false has found that the header breaks off, and said so among the faults:
/// nothing that follows can be found then.
class GgufCursor {
 public:
  /// `faults` and `file`, the file's name for messages, must outlive the cursor.
  GgufCursor(GgufWindow window, std::string_view file, FaultList& faults)
      : window_(std::move(window)), file_(file), faults_(faults) {}

  /// Where it is, in bytes from the start of the file.
  std::uint64_t at() const { return at_; }
  std::uint64_t file_bytes() const { return window_.file_bytes(); }
  /// What was read so far, from the start of the file on.
  std::string_view bytes() const { return window_.bytes(); }
  std::string_view text(std::uint64_t offset, std::uint64_t size) const {
    return bytes().substr(offset, size);
  }

  /// Reads a little-endian number, or some bytes. `what` names it for messages.
  template <class T>
  bool take(T& value, std::string_view what) {
    if (!available(sizeof(T))) return broke_off(what);
    std::memcpy(&value, bytes().data() + at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }

  /// Reads the length of a text and goes past it. A text longer than `most` bytes is a fault.
  bool take_text(std::uint64_t& offset, std::uint64_t& size, std::uint64_t most,
                 std::string_view what);

  /// Whether so many bytes follow.
  bool available(std::uint64_t bytes);
  /// Goes past bytes that are available.
  void skip(std::uint64_t bytes) { at_ += bytes; }
  /// Makes the first bytes of the file available, up to `bytes` of them.
  bool look_at_start(std::uint64_t bytes);

  /// Adds that the file ends, or cannot be read, inside of `what`. Returns false.
  bool broke_off(std::string_view what);

  /// Adds what is wrong with the file, of which the only cure is another copy.
  template <class... Args>
  void damaged(fmt::format_string<Args...> format, Args&&... args) {
    faults_.add(file_, "{}; the file is damaged, download it again",
                fmt::format(format, std::forward<Args>(args)...));
  }
  /// Adds what is wrong with the file, and what to do.
  template <class... Args>
  void fault(fmt::format_string<Args...> format, Args&&... args) {
    faults_.add(file_, format, std::forward<Args>(args)...);
  }

  std::string_view file() const { return file_; }
  FaultList& faults() { return faults_; }

 private:
  GgufWindow window_;
  std::string_view file_;
  FaultList& faults_;
  std::uint64_t at_ = 0;
};

}  // namespace sluice::store
