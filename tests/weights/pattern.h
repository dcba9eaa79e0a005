// A file of known bytes, and blocks that lie in it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "io/fault_reader.h"
#include "io/make_reader.h"
#include "weights/blocks.h"

namespace sluice::weights {

/// The byte of the pattern at an offset: differs from its neighbours and from other blocks.
inline std::byte pattern_at(std::uint64_t offset) {
  return static_cast<std::byte>((offset * 2654435761u) >> 13);
}

/// Holds a file with the pattern for the time of a test.
class PatternFile {
 public:
  explicit PatternFile(std::uint64_t bytes) {
    std::string name = (std::filesystem::temp_directory_path() / "sluice-XXXXXX").string();
    const int descriptor = mkstemp(name.data());
    EXPECT_GE(descriptor, 0);
    close(descriptor);
    path_ = name;
    std::ofstream out(path_, std::ios::binary);
    for (std::uint64_t offset = 0; offset < bytes; ++offset) {
      out.put(static_cast<char>(pattern_at(offset)));
    }
  }
  ~PatternFile() { std::filesystem::remove(path_); }
  PatternFile(const PatternFile&) = delete;
  PatternFile& operator=(const PatternFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline bool is_pattern(const std::byte* data, std::uint64_t offset, std::uint64_t bytes) {
  for (std::uint64_t i = 0; i < bytes; ++i) {
    if (data[i] != pattern_at(offset + i)) return false;
  }
  return true;
}

/// 64 GiB, of which no byte is there: so large that the tables of its tiles weigh something.
inline Blocks large_trunk() {
  constexpr std::uint64_t kRows = std::uint64_t{1} << 20;
  constexpr std::uint64_t kRowBytes = std::uint64_t{64} << 10;
  Blocks blocks;
  blocks.matrices.push_back({"large", {0, 0, kRows * kRowBytes}, kRows});
  return blocks;
}

/// A model of pattern bytes: some matrices of odd sizes, a head, and layers of experts whose parts
/// lie in another order than they are named, one layer's in two pieces.
struct PatternModel {
  explicit PatternModel(const io::ReadFaults& faults = {}) : file(2 << 20) {
    reader = io::make_reader(io::IoMode::pread).value();
    reader = io::make_fault_reader(std::move(reader), faults);
    const io::FileId id = reader->open(file.path()).value();
    std::uint64_t at = 1237;
    const auto place = [&](std::uint64_t bytes) {
      const io::Extent extent = {id, at, bytes};
      at += bytes;
      return extent;
    };
    for (int matrix = 0; matrix < 7; ++matrix) {
      const std::uint64_t rows = 6 * static_cast<std::uint64_t>(matrix + 1);
      blocks.matrices.push_back(
          {"matrix" + std::to_string(matrix), place(rows * 5003), rows, matrix == 3 ? 6u : 1u});
    }
    blocks.first_head_matrix = 6;
    blocks.top_k = 4;
    blocks.expert_layers.resize(3);
    for (std::size_t layer = 1; layer < 3; ++layer) {
      ExpertLayer& experts = blocks.expert_layers[layer];
      experts.parts = 3;
      experts.part_bytes = {2001, 333, 1500};
      for (int expert = 0; expert < 12; ++expert) {
        ExpertPlace where;
        for (const std::size_t part : {2, 0, 1}) {
          const io::Extent extent = place(experts.part_bytes[part]);
          where.file[part] = extent.file;
          where.offset[part] = extent.offset;
          if (layer == 2 && part == 2) at += 100;
        }
        experts.experts.push_back(where);
      }
    }
    EXPECT_LT(at, std::uint64_t{2} << 20);
  }

  PatternFile file;
  std::unique_ptr<io::Reader> reader;
  Blocks blocks;
};

}  // namespace sluice::weights
