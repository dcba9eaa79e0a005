// The file of results of sluice batch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <string_view>

#include "base/function_ref.h"
#include "base/result.h"

namespace sluice::cli {

/// Stands for a custom_id: there may be more of them than memory has room for.
using NameDigest = std::array<std::uint64_t, 2>;
NameDigest digest_of(std::string_view custom_id);

/// A result that is there already.
struct KnownResult {
  NameDigest name = {};
  std::uint64_t id = 0;  ///< checksum of what identifies the request (server::batch_result's id)
  int status = 200;      ///< of HTTP: only 200 is an answer
};

/// Each result is whole and on the drive before the next is begun.
class ResultFile {
 public:
  explicit ResultFile(std::filesystem::path path) : path_(std::move(path)) {}
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  /// Of each result that was read, how many there are so far.
  using OnResult = FunctionRef<void(std::size_t)>;

  /// Which results are there already; changes nothing. ErrorKind::usage when the file holds
  /// anything else, or another batch is writing into it: none can until this object ends.
  Status read(OnResult on_result);

  /// Of those that read() found: the last with this custom_id, or null.
  const KnownResult* find(const NameDigest& name) const;
  void forget();  ///< them; find() is not called any more

  /// Opens it for more. A line that an interruption left unfinished is cut off.
  Status open();

  /// Adds a whole line.
  Status add(std::string_view line);

 private:
  Status open_and_lock(int flags);
  Status read_lines(OnResult on_result);
  tl::unexpected<Error> taken() const;
  tl::unexpected<Error> failed(ErrorKind kind, const char* what) const;

  const std::filesystem::path path_;
  bool is_regular_ = true;
  std::uintmax_t sound_bytes_ = 0;  // of what read() found
  std::deque<KnownResult> known_;   // a deque: growing needs no second copy
  int descriptor_ = -1;
};

}  // namespace sluice::cli
