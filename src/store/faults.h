// What is wrong with a model's files, collected so that one error can list all of it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace sluice::store {

/// Text from a file, made fit for a message: in quotes, control characters escaped, cut when long.
std::string shown(std::string_view text);

/// The faults of a model, in the order in which they were found.
class FaultList {
 public:
  /// More faults than this are counted, not kept: a damaged file can have millions.
  static constexpr std::size_t kListed = 50;

  /// Adds "file: what is wrong; what to do".
  template <class... Args>
  void add(std::string_view file, fmt::format_string<Args...> format, Args&&... args) {
    ++count_;
    if (lines_.size() >= kListed) return;
    std::string line(file);
    line += ": ";
    fmt::format_to(std::back_inserter(line), format, std::forward<Args>(args)...);
    lines_.push_back(std::move(line));
  }

  /// Adds the error of opening or reading a file, which names the file itself.
  void add_error(Error error);

  std::size_t count() const { return count_; }
  bool empty() const { return count_ == 0; }

  /// One error with all faults, a line each. Its kind is model_files, or drive when a drive failed:
  /// then nothing can be said about the files. `what` names the model.
  Error to_error(std::string_view what) const;

 private:
  std::vector<std::string> lines_;
  std::size_t count_ = 0;
  bool drive_failed_ = false;
};

}  // namespace sluice::store
