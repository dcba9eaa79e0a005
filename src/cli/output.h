// Writing to stdout and to files, with their ways to fail.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::cli {

/// A file descriptor to write to: everything or an error. A reader that went away (a broken pipe)
/// is no error: what is written afterwards is dropped, and is_closed() says so.
class Output {
 public:
  /// `name` is for messages. The descriptor stays the caller's.
  Output(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}
  static Output standard() { return {1, "stdout"}; }

  /// Writes at once. Fails with ErrorKind::drive (no space left, ...).
  Status write(std::string_view bytes);

  /// Collects small pieces, and writes them when many have come together.
  Status append(std::string_view bytes);
  Status flush();

  bool is_closed() const { return closed_; }
  bool is_terminal() const;

 private:
  int descriptor_;
  std::string name_;
  std::string pending_;
  bool closed_ = false;
};

/// For messages. A stderr that is closed or full has nobody to tell, and changes nothing.
void write_to_stderr(std::string_view text);

}  // namespace sluice::cli
