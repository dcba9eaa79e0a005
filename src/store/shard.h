// One weight file: its header read, checked and entered into the table of tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/faults.h"
#include "store/header.h"
#include "store/layout.h"
#include "store/tensor_table.h"

namespace sluice::store {

/// A longer header is refused before memory is taken for it. K3's longest is 0.8 MB; a model of
/// half a million tensors in one file has 76 MB.
inline constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{512} << 20;

/// Reads the headers of weight files into one table; keeps its memory from file to file.
class ShardReader {
 public:
  ShardReader(TensorTable& table, FaultList& faults) : table_(table), faults_(faults) {}

  struct Outcome {
    std::uint64_t file_bytes = 0;
    bool all_names = false;  ///< every name of the file is in the table
  };

  /// Reads one file, which becomes the table's next, and adds what is wrong with it to the faults.
  /// Fails as io::File does where it cannot be read; then it is not the table's next, and a copy of
  /// it may be.
  Result<Outcome> read(const std::filesystem::path& path);

  /// Holds a copy of the file that was read last against it, by size and header. What differs goes
  /// to the faults. Fails as io::File does where the copy cannot be read: that is no fault of the
  /// model, which goes on without it.
  Status compare(const std::filesystem::path& copy, const std::filesystem::path& original,
                 const Outcome& outcome);

  /// Counts a file that is not there as the table's next.
  void skip(std::string_view file) { begin_file(file); }

  /// Like read() for a header in memory: `header` of a file of `file_bytes`. For tests and fuzzing.
  bool read_header(const PaddedText& header, std::uint64_t file_bytes, std::string_view file);

 private:
  void begin_file(std::string_view file);
  bool parse_header(const PaddedText& header, std::uint64_t file_bytes, std::string_view file);
  std::optional<std::uint64_t> header_bytes(std::string_view start, std::uint64_t file_bytes,
                                            std::string_view file);
  void enter(const HeaderTensor& tensor, std::uint64_t data_start, std::string_view file);

  TensorTable& table_;
  FaultList& faults_;
  std::vector<std::string> file_names_;  // of the table's files
  HeaderParser parser_;
  PaddedText header_;
  std::vector<Span> spans_;
  bool all_sound_ = true;
};

}  // namespace sluice::store
