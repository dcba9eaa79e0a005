#include "io/mmap_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/log.h"
#include "base/size.h"
#include "io/lane_reader.h"
#include "io/pool_lane.h"

namespace sluice::io {
namespace {

// So much of a mapping is in the process per thread before it is dropped again: charged, so small,
// and enough for the calls per step to cost nothing beside the copy.
constexpr std::size_t kStepBytes = std::size_t{256} << 10;

// A missing page brings its neighbours with it, never beyond one table of pages.
constexpr std::uint64_t kAround = std::uint64_t{2} << 20;

class MappedFile final : public PieceFile {
 public:
  /// Without `copies` the bytes come with pread() from the same page cache.
  static Result<std::unique_ptr<PieceFile>> make(File file, const System& system,
                                                 std::size_t step_bytes, bool copies) {
    int error = 0;
    const std::byte* mapping = nullptr;
    if (file.size() > 0 && copies) mapping = system.map(file.descriptor(), file.size(), error);
    if (error != 0) {
      return fail(error == ENOMEM ? ErrorKind::memory : ErrorKind::drive,
                  "{}: the file cannot be mapped into memory: {}; use pread instead",
                  file.path().string(), error_text(error));
    }
    return std::unique_ptr<PieceFile>(new MappedFile(std::move(file), mapping, system, step_bytes));
  }

  ~MappedFile() override {
    if (mapping_ != nullptr) system_.unmap(mapping_, file_.size());
  }

  const File& file() const override { return file_; }
  bool direct() const override { return false; }

  PieceResult read(std::uint64_t offset, std::byte* to, std::uint64_t length) override {
    const auto call = [this](std::byte* into, std::size_t wanted, std::uint64_t from) {
      return copy(from, into, wanted);
    };
    const ReadOutcome outcome = read_fully(call, to, length, offset, {.max_bytes = step_bytes_});
    return {.outcome = outcome, .transferred = outcome.got};
  }

 private:
  MappedFile(File file, const std::byte* mapping, const System& system, std::size_t step_bytes)
      : file_(std::move(file)), mapping_(mapping), system_(system), step_bytes_(step_bytes) {}

  /// As pread(): bytes, 0 at the end of the file as it is now, or -errno.
  std::int64_t copy(std::uint64_t offset, std::byte* to, std::size_t length) const {
    if (mapping_ == nullptr) return system_.pread(file_.descriptor(), to, length, offset);
    const std::int64_t got = system_.copy_mapped(to, mapping_ + offset, length);
    drop(offset, length);
    // Where a file was cut within a page, the rest of that page reads as zeros without a word. So
    // the size decides what was real.
    FileFacts now;
    const int described = system_.describe(file_.descriptor(), now);
    if (described < 0) return described;
    if (now.size <= offset) return 0;
    const auto real = static_cast<std::int64_t>(std::min<std::uint64_t>(now.size - offset, length));
    if (got >= 0) return std::min(got, real);
    // Memory that is there by the file's size and cannot be had: the drive failed under it.
    return got == -EFAULT ? -EIO : got;
  }

  /// Takes out of the process what came into it with these bytes. Others may be reading there:
  /// their pages come back from the page cache.
  void drop(std::uint64_t offset, std::uint64_t length) const {
    const auto address = reinterpret_cast<std::uintptr_t>(mapping_ + offset);
    const std::uint64_t before = std::min<std::uint64_t>(address % kAround, offset);
    const std::uint64_t end = offset - before + round_up(before + length, kAround);
    const std::uint64_t last = round_up(file_.size(), kRoomAlignment);
    system_.drop_mapped(mapping_ + (offset - before), std::min(end, last) - (offset - before));
  }

  const File file_;
  const std::byte* const mapping_;
  const System& system_;
  const std::size_t step_bytes_;
};

/// Some sandboxes refuse the call that copies safely. A copy that a signal can kill is no way out.
bool can_copy(const System& system) {
  const std::byte from{1};
  std::byte to{0};
  return system.copy_mapped(&to, &from, 1) == 1;
}

}  // namespace

std::unique_ptr<Reader> make_mmap_reader(const ReaderOptions& options) {
  const System* system = options.system;
  const std::size_t step = std::min(kStepBytes, options.max_call_bytes);
  const bool copies = can_copy(*system);
  if (!copies) log_note("mapped files cannot be copied from safely here; reading them instead");
  auto file_maker = [system, step, copies](File file, Drive&) {
    return MappedFile::make(std::move(file), *system, step, copies);
  };
  auto lane_maker = [options, step](const OpenFile&, Delivery& delivery) {
    return make_pool_lane(options, step, delivery);
  };
  return std::make_unique<LaneReader>(options, file_maker, lane_maker);
}

}  // namespace sluice::io
