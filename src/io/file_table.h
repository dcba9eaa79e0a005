// The files that a reader has open, and the drives they lie on.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "io/drive.h"
#include "io/piece_file.h"
#include "io/reader.h"

namespace sluice::io {

/// One open file with its counters. Stays where it is for as long as its table lives.
struct OpenFile {
  OpenFile(std::unique_ptr<PieceFile> opened, Drive& on) : pieces(std::move(opened)), drive(on) {}

  const std::filesystem::path& path() const { return pieces->file().path(); }
  std::uint64_t size() const { return pieces->file().size(); }

  const std::unique_ptr<PieceFile> pieces;
  Drive& drive;
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> faults{0};
};

/// Thread-safe. Files are never closed before the table goes.
class FileTable {
 public:
  /// Opens the file and makes its PieceFile, or returns the id that the path has already.
  Result<FileId> open(const std::filesystem::path& path, const System& system,
                      const PieceFileMaker& maker);

  /// `file` must be an id that open() returned.
  OpenFile& operator[](FileId file) const;

  /// Drive::report_stall() for every drive.
  void report_stalls(Clock::duration limit) const;

  /// Fills in `drives` and `files`.
  void add_statistics(ReaderStatistics& statistics) const;

 private:
  Drive& drive_of(const File& file);

  mutable std::mutex mutex_;  // guards what follows; the OpenFiles themselves are thread-safe
  std::vector<std::unique_ptr<Drive>> drives_;
  std::vector<std::unique_ptr<OpenFile>> files_;
  std::unordered_map<std::string, FileId> ids_;
};

}  // namespace sluice::io
