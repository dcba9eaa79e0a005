// The file of results of sluice batch.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::cli {

/// Each result is whole and on the drive before the next is begun.
class ResultFile {
 public:
  /// By custom_id: what identifies the request that was answered (server::batch_result's id).
  using Known = std::map<std::string, std::string>;

  explicit ResultFile(std::filesystem::path path) : path_(std::move(path)) {}
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  /// Which results are there already; changes nothing. ErrorKind::usage when the file holds
  /// anything else.
  Result<Known> read();

  /// Opens it for more. A line that an interruption left unfinished is cut off.
  Status open();

  /// Adds a whole line.
  Status add(std::string_view line);

 private:
  tl::unexpected<Error> failed(ErrorKind kind, const char* what) const;

  const std::filesystem::path path_;
  bool is_regular_ = true;
  std::uintmax_t sound_bytes_ = 0;  // of what read() found
  int descriptor_ = -1;
};

}  // namespace sluice::cli
