// One GGUF file: its header read, checked and entered into the table of tensors (docs/formats.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/faults.h"
#include "store/layout.h"
#include "store/metadata.h"
#include "store/tensor_table.h"

namespace sluice::store {

/// Reads the headers of the files of one model, in their order.
class GgufReader {
 public:
  GgufReader(TensorTable& table, FaultList& faults) : table_(table), faults_(faults) {}

  /// Which part of a split model a file is expected to be.
  struct Part {
    std::uint32_t number = 1;  ///< from 1
    std::uint32_t count = 1;
  };

  /// Reads a file, which becomes the table's next, and adds what is wrong with it to the faults.
  /// Returns its size.
  std::uint64_t read(const std::filesystem::path& path, Part part);

  /// Counts a file that is not there as the table's next.
  void skip(std::string_view file) { begin_file(file); }

  /// Like read() for the start of a file of `file_bytes` in memory, which holds the whole header if
  /// the file does. For tests and fuzzing.
  void read_header(std::string_view start, std::uint64_t file_bytes, std::string_view file,
                   Part part);

  /// After the last file: what only all together can say.
  void finish();

  /// The metadata of the first file.
  Metadata take_metadata() { return std::move(metadata_); }

 private:
  class Parser;
  void begin_file(std::string_view file);

  TensorTable& table_;
  FaultList& faults_;
  std::vector<std::string> file_names_;
  Metadata metadata_;
  std::optional<std::uint64_t> announced_tensors_;  // of all files, by the first
  bool all_sound_ = true;
};

}  // namespace sluice::store
