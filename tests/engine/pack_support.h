// Packs of the golden checkpoints, and output files that end in the middle.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <map>

#include "engine/golden.h"
#include "engine/pack.h"
#include "engine/verify.h"
#include "store/pack.h"

namespace sluice::engine {

namespace fs = std::filesystem;

/// Folders that go away with their test.
class PackFolders {
 public:
  PackFolders() {
    std::string name = (fs::temp_directory_path() / "sluice-pack-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  ~PackFolders() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  PackFolders(const PackFolders&) = delete;
  PackFolders& operator=(const PackFolders&) = delete;
  const fs::path& root() const { return root_; }
  std::vector<fs::path> some(std::size_t count) const {
    std::vector<fs::path> folders;
    for (std::size_t i = 0; i < count; ++i) folders.push_back(root_ / std::to_string(i));
    return folders;
  }

 private:
  fs::path root_;
};

inline PackOptions pack_options(const std::string& model, std::vector<fs::path> folders) {
  PackOptions options;
  options.model = checkpoint_folder(model);
  for (std::size_t i = 0; i < folders.size(); ++i) {
    options.speeds.push_back(static_cast<double>(folders.size() - i));
  }
  options.folders = std::move(folders);
  options.chunk_bytes = 16384;
  options.sync_bytes = 256 << 10;
  return options;
}

inline Result<PackSummary> pack_quietly(const PackOptions& options) {
  return pack(options, [](const PackProgress&) {});
}

inline Result<VerifyReport> verify_quietly(const fs::path& model) {
  VerifyOptions options;
  options.model = model;
  return verify(options, [](const VerifyProgress&) {});
}

inline std::string bytes_of_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// All files below a folder, with their bytes.
inline std::map<std::string, std::string> all_files(const fs::path& root) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.is_regular_file()) {
      files[fs::relative(entry.path(), root).string()] = bytes_of_file(entry.path());
    }
  }
  return files;
}

/// Flips a bit of a file.
inline void flip(const fs::path& path, std::uint64_t offset) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(offset));
  const auto byte = static_cast<char>(file.get() ^ 4);
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(byte);
}

}  // namespace sluice::engine
