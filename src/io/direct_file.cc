#include "io/direct_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/size.h"
#include "io/reader.h"

namespace sluice::io {

PieceFileMaker direct_file_maker(const ReaderOptions& options) {
  return [options](File file, Drive& drive) -> Result<std::unique_ptr<PieceFile>> {
    return std::make_unique<DirectFile>(std::move(file), drive, options);
  };
}

DirectFile::DirectFile(File file, Drive& drive, const ReaderOptions& options)
    : file_(std::move(file)), drive_(drive), options_(options) {
  SLUICE_CHECK(options.max_call_bytes > 0 && options.max_call_bytes % kRoomAlignment == 0);
  if (options.direct) open_direct();
}

DirectFile::~DirectFile() {
  if (direct_descriptor_ >= 0) options_.system->close(direct_descriptor_);
}

void DirectFile::open_direct() {
  // Without word from the system, 4096 serves every block size in use.
  const std::uint64_t told = file_.facts().direct_alignment;
  alignment_ = told == 0 ? kRoomAlignment : told;
  const std::string refusal = probe();
  if (refusal.empty()) {
    direct_.store(true, std::memory_order_relaxed);
  } else {
    drive_.note_buffered(file_.path().string(), refusal);
  }
}

std::string DirectFile::probe() {
  const System& system = *options_.system;
  if (alignment_ > kRoomAlignment || !std::has_single_bit(alignment_)) {
    return fmt::format("it asks for blocks of {} bytes", alignment_);
  }
  direct_descriptor_ = system.open(file_.path().c_str(), true);
  if (direct_descriptor_ < 0) return error_text(-direct_descriptor_);
  FileFacts facts;
  const int described = system.describe(direct_descriptor_, facts);
  if (described < 0) return error_text(-described);
  if (facts.device != file_.facts().device || facts.inode != file_.facts().inode) {
    return "the file was replaced while it was being opened";
  }
  if (file_.size() < alignment_) return {};  // all of it is unaligned end: never read directly
  alignas(kRoomAlignment) std::array<std::byte, kRoomAlignment> block;
  const ReadOutcome outcome =
      read_fully(system, direct_descriptor_, block.data(), alignment_, 0,
                 {.max_bytes = options_.max_call_bytes, .alignment = alignment_});
  if (outcome.complete(alignment_)) return {};
  return outcome.error != 0 ? error_text(outcome.error) : "a trial read came back short";
}

bool DirectFile::refuses_direct(int error) { return error == EINVAL || error == EOPNOTSUPP; }

void DirectFile::give_up_direct(int error) {
  direct_.store(false, std::memory_order_relaxed);
  drive_.note_buffered(file_.path().string(), error_text(error));
}

std::uint64_t DirectFile::direct_length(std::uint64_t offset, std::uint64_t length) const {
  if (!direct()) return 0;
  const std::uint64_t whole_blocks = file_.size() / alignment_ * alignment_;
  const std::uint64_t end = std::min(round_up(offset + length, alignment_), whole_blocks);
  return end > offset ? end - offset : 0;
}

PieceResult DirectFile::read(std::uint64_t offset, std::byte* to, std::uint64_t length) {
  PieceResult result;
  const std::uint64_t wanted = direct_length(offset, length);
  if (wanted > 0) {
    const ReadOutcome outcome =
        read_fully(*options_.system, direct_descriptor_, to, wanted, offset,
                   {.max_bytes = options_.max_call_bytes, .alignment = alignment_});
    result.transferred = outcome.got;
    result.outcome.got = std::min(outcome.got, length);
    if (refuses_direct(outcome.error)) {
      give_up_direct(outcome.error);
    } else if (outcome.error != 0 && outcome.error != EAGAIN) {
      result.outcome.error = outcome.error;
      return result;
    }
  }
  const std::uint64_t have = result.outcome.got;
  if (have == length) return result;
  const PieceResult rest = read_buffered(offset + have, to + have, length - have);
  result.outcome = {.got = have + rest.outcome.got, .error = rest.outcome.error};
  result.transferred += rest.transferred;
  return result;
}

void DirectFile::drop_cache(std::uint64_t offset, std::uint64_t length) const {
  if (length == 0) return;  // which the system would take for the rest of the file
  const std::uint64_t start = offset / kRoomAlignment * kRoomAlignment;
  options_.system->drop_cache(file_.descriptor(), start,
                              round_up(offset + length, kRoomAlignment) - start);
}

PieceResult DirectFile::read_buffered(std::uint64_t offset, std::byte* to,
                                      std::uint64_t length) const {
  const ReadOutcome outcome = read_fully(*options_.system, file_.descriptor(), to, length, offset,
                                         {.max_bytes = options_.max_call_bytes});
  drop_cache(offset, outcome.got);
  return {.outcome = outcome, .transferred = outcome.got};
}

}  // namespace sluice::io
