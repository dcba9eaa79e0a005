// Small model files, well-formed or not, in a folder of their own.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/checkpoint.h"

namespace sluice::store {

/// The files of a model in two shards.
inline constexpr const char* kFirst = "model-00001-of-000002.safetensors";
inline constexpr const char* kSecond = "model-00002-of-000002.safetensors";
inline constexpr const char* kIndex = "model.safetensors.index.json";

/// An empty folder that is removed at the end of the test.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "sluice-store-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  /// Writes a file and returns its path.
  std::filesystem::path write(std::string_view name, std::string_view bytes) const {
    const auto path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::filesystem::remove(path);  // some file systems wait for the drive on writing over a file
    std::ofstream out(path, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out) std::abort();
    return path;
  }

 private:
  std::filesystem::path path_;
};

/// The eight bytes before a header.
inline std::string length_bytes(std::uint64_t length) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i)
    bytes[static_cast<std::size_t>(i)] = static_cast<char>(length >> (8 * i));
  return bytes;
}

/// A safetensors file with this header, padded as usual, and `data_bytes` bytes of data.
inline std::string weight_file(std::string header, std::size_t data_bytes) {
  while (header.size() % 8 != 0) header += ' ';
  std::string file = length_bytes(header.size()) + header;
  file.resize(file.size() + data_bytes, '\x11');
  return file;
}

/// `"name":{"dtype":"U8","shape":[bytes],"data_offsets":[begin,begin+bytes]}`
inline std::string entry(std::string_view name, std::uint64_t begin, std::uint64_t bytes) {
  return fmt::format(R"("{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})", name, bytes,
                     begin, begin + bytes);
}

/// A header of these entries.
inline std::string header_of(const std::vector<std::string>& entries) {
  return fmt::format("{{{}}}", fmt::join(entries, ","));
}

/// A file with tensors of `bytes` bytes each, one after the other.
inline std::string weight_file_of(const std::vector<std::string>& names, std::uint64_t bytes = 4) {
  std::vector<std::string> entries;
  for (const std::string& name : names)
    entries.push_back(entry(name, entries.size() * bytes, bytes));
  return weight_file(header_of(entries), names.size() * bytes);
}

/// `{"metadata":{...},"weight_map":{...}}` with (tensor, file) lines.
inline std::string index_of(const std::vector<std::pair<std::string, std::string>>& lines,
                            std::uint64_t total_size) {
  std::string text = fmt::format(R"({{"metadata":{{"total_size":{}}},"weight_map":{{)", total_size);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    text += fmt::format(R"({}"{}":"{}")", i == 0 ? "" : ",", lines[i].first, lines[i].second);
  }
  return text + "}}";
}

/// Opens what must not open, and returns the message.
inline std::string fault_of(const std::filesystem::path& path) {
  const auto checkpoint = Checkpoint::open(path);
  EXPECT_FALSE(checkpoint) << path << " opened";
  if (checkpoint) return "";
  EXPECT_EQ(checkpoint.error().kind, ErrorKind::model_files) << checkpoint.error().message;
  return checkpoint.error().message;
}

/// `message` holds all of the fragments.
inline void expect_says(const std::string& message, const std::vector<std::string>& fragments) {
  for (const std::string& fragment : fragments) {
    EXPECT_NE(message.find(fragment), std::string::npos)
        << "expected: " << fragment << "\nin: " << message;
  }
}

inline std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace sluice::store
