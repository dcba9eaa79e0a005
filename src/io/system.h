// The system calls that reading needs, behind one interface, so that tests can put faults exactly
// at this border.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "io/ring.h"

namespace sluice::io {

/// What the system says about an open file.
struct FileFacts {
  std::uint32_t mode = 0;              ///< st_mode: what kind of file it is
  std::uint64_t size = 0;              ///< bytes
  std::uint64_t device = 0;            ///< st_dev: files with the same value lie on the same drive
  std::uint64_t inode = 0;             ///< with `device` the identity of the file
  std::uint64_t direct_alignment = 0;  ///< of offsets and lengths of direct reads; 0: not told
};

/// Results are as the kernel gives them: a negative value is -errno. Thread-safe.
class System {
 public:
  virtual ~System() = default;

  /// Opens for reading only and returns a descriptor. Never waits for the other end of a pipe.
  virtual int open(const char* path, bool direct) const;
  virtual void close(int descriptor) const;
  virtual int describe(int descriptor, FileFacts& facts) const;
  virtual std::int64_t pread(int descriptor, std::byte* to, std::size_t length,
                             std::uint64_t offset) const;

  /// Tells the page cache that this range of the file is not needed again soon.
  virtual void drop_cache(int descriptor, std::uint64_t offset, std::uint64_t length) const;

  /// Maps the first `length` > 0 bytes of the file for reading; `error` is set on failure.
  virtual const std::byte* map(int descriptor, std::uint64_t length, int& error) const;
  virtual void unmap(const std::byte* mapping, std::uint64_t length) const;

  /// Copies out of a mapping. Where memory behind the mapping is gone (the file was cut, the drive
  /// failed) it returns the bytes before that place or -EFAULT; it never raises a signal.
  virtual std::int64_t copy_mapped(std::byte* to, const std::byte* from, std::size_t length) const;

  /// Takes pages of a mapping out of this process (they stay in the page cache).
  virtual void drop_mapped(const std::byte* from, std::uint64_t length) const;

  /// A ring for `entries` outstanding operations; null where the system has none, with `error` set.
  virtual std::unique_ptr<Ring> make_ring(unsigned entries, int& error) const;
};

/// The operating system itself.
const System& operating_system();

}  // namespace sluice::io
