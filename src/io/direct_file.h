// A file that is read with direct I/O where its file system takes that, else through the page
// cache.
#pragma once

#include <atomic>

#include "io/piece_file.h"
#include "io/reader_options.h"

namespace sluice::io {

/// Direct I/O is probed at open by reading one real block, since many file systems accept the flag
/// and refuse the read. It is not trusted after that either: the first direct read that is refused
/// as invalid turns the file over to buffered reads for good. Buffered reads drop the page cache
/// behind them. The unaligned end of a file is always read buffered: kernels differ in what a
/// direct read across it gives.
class DirectFile final : public PieceFile {
 public:
  DirectFile(File file, Drive& drive, const ReaderOptions& options);
  ~DirectFile() override;

  const File& file() const override { return file_; }
  PieceResult read(std::uint64_t offset, std::byte* to, std::uint64_t length) override;
  bool direct() const override { return direct_.load(std::memory_order_relaxed); }

  /// The part of [offset, offset + length) rounded out that a direct read may fetch, in bytes from
  /// `offset` on; the rest up to `length` (if any) is for a buffered read. 0 when not direct().
  std::uint64_t direct_length(std::uint64_t offset, std::uint64_t length) const;

  int direct_descriptor() const { return direct_descriptor_; }
  std::uint64_t alignment() const { return alignment_; }

  /// Whether a direct read that ended in this errno says that direct I/O does not work here.
  static bool refuses_direct(int error);

  /// Reads buffered from now on, and says so once per drive.
  void give_up_direct(int error);

  /// Tells the page cache that these bytes are in our room now: a second copy takes memory from
  /// others, and in a control group from ourselves.
  void drop_cache(std::uint64_t offset, std::uint64_t length) const;

  /// As read(), through the page cache.
  PieceResult read_buffered(std::uint64_t offset, std::byte* to, std::uint64_t length) const;

 private:
  void open_direct();
  /// Reads one block for trial; an empty text when direct I/O works, else the reason.
  std::string probe();

  File file_;
  Drive& drive_;
  const ReaderOptions options_;
  int direct_descriptor_ = -1;
  std::uint64_t alignment_ = 0;
  std::atomic<bool> direct_{false};
};

/// Makes DirectFiles.
PieceFileMaker direct_file_maker(const ReaderOptions& options);

}  // namespace sluice::io
