// The file of requests of sluice batch: read line by line and never held whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "base/result.h"

namespace sluice::cli {

class RequestFile {
 public:
  /// Where a line is, without its end, and what it was when it was found.
  struct Line {
    std::uint64_t offset = 0;
    std::uint64_t checksum = 0;
    std::uint32_t bytes = 0;
    std::uint32_t number = 0;  ///< from 1
  };
  using Take = FunctionRef<Status(const Line&, std::string_view)>;

  /// "-": stdin. What is no regular file can be read but once, and is copied into a temporary file.
  /// ErrorKind::usage if it cannot be read, and later for a line of more than `longest` bytes.
  static Result<RequestFile> open(const std::string& path, std::size_t longest);
  RequestFile(RequestFile&& other) noexcept;
  RequestFile& operator=(RequestFile&& other) = delete;
  ~RequestFile();

  /// Of each line that is not blank, until the first error.
  Status for_each(Take take) const;

  /// A line again. ErrorKind::drive if it is another one by now.
  Result<std::string> read(const Line& line) const;

  /// "requests.jsonl: line 3"
  std::string place(const Line& line) const;

 private:
  RequestFile(std::string path, std::size_t longest) : path_(std::move(path)), longest_(longest) {}
  Status copy_from(int input);
  Result<std::size_t> read_at(std::uint64_t offset, char* to, std::size_t most) const;
  tl::unexpected<Error> failed(ErrorKind kind, std::string_view what) const;

  std::string path_;
  std::size_t longest_;
  int descriptor_ = -1;
};

}  // namespace sluice::cli
