#include "engine/pack_writer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/size.h"
#include "engine/read_ahead.h"
#include "store/checksum.h"
#include "store/pack.h"
#include "store/pack_stripes.h"

namespace sluice::engine {
namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{8} << 20;
constexpr std::size_t kDepth = 8;

/// The tensors of a layout in their order, in pieces.
class SourcePieces {
 public:
  SourcePieces(const PackLayout& layout, std::size_t first_tensor)
      : sources_(layout.sources), tensor_(first_tensor) {}

  std::optional<io::Extent> next() {
    while (tensor_ < sources_.size() && at_ == sources_[tensor_].length) {
      ++tensor_;
      at_ = 0;
    }
    if (tensor_ == sources_.size()) return std::nullopt;
    io::Extent piece = sources_[tensor_];
    piece.offset += at_;
    piece.length = std::min(kPieceBytes, piece.length - at_);
    at_ += piece.length;
    return piece;
  }

 private:
  const std::vector<io::Extent>& sources_;
  std::size_t tensor_;
  std::uint64_t at_ = 0;
};

class BlockWriter {
 public:
  using OnProgress = FunctionRef<void(std::uint64_t bytes_done)>;

  BlockWriter(const PackOptions& options, PackSource& source, PackJournal& journal,
              PackOutput& output)
      : source_(source),
        journal_(journal),
        output_(output),
        stripes_(journal.plan.chunk_bytes, journal.plan.deal, journal.plan.parts.size()),
        sync_bytes_(options.sync_bytes) {}

  Status run(OnProgress progress, const Cancellation* cancellation) {
    store::BlockWalk walk(source_.layout.index);
    while (walk.block() < journal_.blocks_written) walk.next();
    SLUICE_CHECK(walk.first_unit() == journal_.checksums.size());
    SourcePieces pieces(source_.layout, walk.first_tensor());
    SLUICE_ASSIGN(const auto reads, ReadAhead::create(*source_.reader, kPieceBytes, kDepth,
                                                      [&pieces] { return pieces.next(); }));
    for (; !walk.done(); walk.next()) {
      SLUICE_TRY(copy(walk.span(), *reads, progress, cancellation));
      if (unsynced_ >= sync_bytes_) SLUICE_TRY(note(walk.block() + 1));
    }
    return note(walk.block());
  }

 private:
  Status copy(const store::BlockSpan& span, ReadAhead& reads, OnProgress progress,
              const Cancellation* cancellation) {
    std::uint64_t done = 0;
    while (done < span.bytes) {
      if (cancellation != nullptr && cancellation->requested()) {
        return fail(ErrorKind::interrupted, "interrupted");
      }
      const auto bytes = reads.next();
      SLUICE_CHECK(bytes);
      if (!*bytes) return tl::unexpected(bytes->error());
      add_to_checksums(span, done, **bytes);
      SLUICE_TRY(write(span.offset + done, **bytes));
      done += (*bytes)->size();
      progress(span.offset + done);
    }
    const std::uint64_t end = span.offset + span.bytes;
    static constexpr std::array<std::byte, store::kPackAlignment> kZeros{};
    const std::uint64_t gap = round_up(end, store::kPackAlignment) - end;
    return write(end, std::span(kZeros).first(static_cast<std::size_t>(gap)));
  }

  void add_to_checksums(const store::BlockSpan& span, std::uint64_t done,
                        std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const std::uint64_t unit_end =
          std::min(span.bytes, (done / span.unit_bytes + 1) * span.unit_bytes);
      const auto part = bytes.first(
          static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), unit_end - done)));
      checksum_.add(part);
      done += part.size();
      bytes = bytes.subspan(part.size());
      if (done == unit_end) fresh_.push_back(checksum_.take());
    }
  }

  Status write(std::uint64_t offset, std::span<const std::byte> bytes) {
    Status status;
    stripes_.for_each(offset, bytes.size(), [&](std::uint64_t at, const store::PartExtent& to) {
      if (!status) return;
      status = output_.write(to.part, store::kPartHeaderBytes + to.offset,
                             bytes.subspan(static_cast<std::size_t>(at - offset),
                                           static_cast<std::size_t>(to.length)));
    });
    unsynced_ += bytes.size();
    return status;
  }

  /// Data first, then the record that says it is there.
  Status note(std::uint64_t blocks) {
    if (blocks == journal_.blocks_written) return {};
    SLUICE_TRY(output_.sync());
    SLUICE_TRY(output_.append(record_written(blocks, fresh_)));
    journal_.blocks_written = blocks;
    journal_.checksums.insert(journal_.checksums.end(), fresh_.begin(), fresh_.end());
    fresh_.clear();
    unsynced_ = 0;
    return {};
  }

  PackSource& source_;
  PackJournal& journal_;
  PackOutput& output_;
  const store::Stripes stripes_;
  const std::uint64_t sync_bytes_;
  store::Checksum checksum_;
  std::vector<std::uint64_t> fresh_;  // of units since the last note
  std::uint64_t unsynced_ = 0;
};

}  // namespace

Status write_blocks(const PackOptions& options, PackSource& source, PackJournal& journal,
                    PackOutput& output, FunctionRef<void(std::uint64_t)> progress,
                    const Cancellation* cancellation) {
  return BlockWriter(options, source, journal, output).run(progress, cancellation);
}

}  // namespace sluice::engine
