// A folder of a test's own, gone with it.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace sluice::server {

/// Where there is room in memory, there: a busy drive takes seconds to confirm what is written, in
/// which the answers of a test end that should be cut in the middle.
inline std::filesystem::path place_of_folders() {
  constexpr std::uintmax_t kEnough = std::uintmax_t{1} << 30;
  const std::filesystem::path in_memory = "/dev/shm";
  std::error_code error;
  const auto space = std::filesystem::space(in_memory, error);
  const bool usable =
      !error && space.available >= kEnough && ::access(in_memory.c_str(), W_OK) == 0;
  return usable ? in_memory : std::filesystem::temp_directory_path();
}

class Folder {
 public:
  Folder() {
    std::string name = place_of_folders() / "sluice-server-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace sluice::server
