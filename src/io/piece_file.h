// The part of a reader that differs between the ways of reading: how one piece of a file comes in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "io/drive.h"
#include "io/file.h"
#include "io/read_fully.h"

namespace sluice::io {

struct PieceResult {
  ReadOutcome outcome;
  std::uint64_t transferred = 0;  ///< bytes that came from the drive, alignment included
};

/// An open file that pieces are read from. Thread-safe.
class PieceFile {
 public:
  virtual ~PieceFile() = default;

  virtual const File& file() const = 0;

  /// Fills `to` with `length` bytes from `offset` on. `offset` and `to` are multiples of
  /// kRoomAlignment, and the room behind `to` reaches to the next multiple of it after `length`.
  virtual PieceResult read(std::uint64_t offset, std::byte* to, std::uint64_t length) = 0;

  /// Whether the file is read past the page cache.
  virtual bool direct() const = 0;
};

/// Makes the PieceFile for a file on a drive; both outlive it.
using PieceFileMaker = std::function<Result<std::unique_ptr<PieceFile>>(File file, Drive& drive)>;

}  // namespace sluice::io
