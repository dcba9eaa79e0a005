#include "engine/pack.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <array>

#include <optional>
#include <utility>

#include "base/check.h"
#include "base/size.h"
#include "engine/drive_speed.h"
#include "engine/folder_lock.h"
#include "engine/open_files.h"
#include "engine/pack_folders.h"
#include "engine/pack_journal.h"
#include "engine/pack_layout.h"
#include "engine/read_ahead.h"
#include "engine/verify.h"
#include "model/registry.h"
#include "store/checksum.h"
#include "store/pack.h"
#include "store/pack_stripes.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPieceBytes = std::uint64_t{8} << 20;
constexpr std::size_t kDepth = 8;
constexpr std::uint64_t kVerifiedStep = std::uint64_t{4} << 30;  // bytes between notes of it

/// The model to pack, and the order of its tensors.
struct Source {
  std::optional<store::Checkpoint> checkpoint;
  std::unique_ptr<io::Reader> reader;
  PackLayout layout;
  std::vector<store::PackCompanion> companions;
};

Result<Source> open_source(const PackOptions& options) {
  Source source;
  SLUICE_ASSIGN(source.reader, io::make_reader(options.io));
  if (options.wrap_reader) source.reader = options.wrap_reader(std::move(source.reader));
  SLUICE_ASSIGN(OpenedFiles opened,
                open_files(options.model, options.model_folders, source.reader));
  const std::vector<io::FileId> files = std::move(opened.ids);
  source.checkpoint = std::move(opened.checkpoint);
  if (source.checkpoint->metadata() != nullptr) {
    return fail(ErrorKind::usage,
                "{}: a GGUF model; sluice pack takes models in safetensors files (and packs)",
                options.model.string());
  }
  SLUICE_ASSIGN(const auto architecture, model::open_architecture(*source.checkpoint, files));
  if (architecture->blueprint().experts_share_tensors) {
    return fail(
        ErrorKind::usage,
        "{}: all experts of a layer lie in the same tensors; sluice pack takes models whose "
        "experts have tensors of their own",
        options.model.string());
  }
  source.layout = lay_out_pack(*source.checkpoint, files, architecture->blueprint());
  source.layout.index.chunk_bytes = options.chunk_bytes;
  SLUICE_ASSIGN(source.companions, find_companions(source.checkpoint->folder()));
  return source;
}

Result<std::vector<double>> speeds_of(const PackOptions& options,
                                      const std::vector<fs::path>& folders) {
  if (!options.speeds.empty()) return options.speeds;
  if (folders.size() == 1) return std::vector<double>{1.0};
  std::vector<double> speeds;
  for (const fs::path& folder : folders) {
    SLUICE_ASSIGN(const TrialFiles files, TrialFiles::find(folder));
    SLUICE_ASSIGN(const DriveSpeed speed, measure_drive(files, {}));
    speeds.push_back(std::max(1.0, speed.bytes_per_s));
  }
  return speeds;
}

/// The texts of the paths, as they are recorded.
std::vector<std::string> texts(const std::vector<fs::path>& paths) {
  std::vector<std::string> out;
  for (const fs::path& path : paths) out.push_back(path.string());
  return out;
}

/// Makes the plan of a new pack and begins its journal.
Result<PackJournal> begin(const PackOptions& options, const std::vector<fs::path>& folders,
                          Source& source) {
  SLUICE_TRY(expect_empty(folders));
  SLUICE_ASSIGN(const std::vector<double> speeds, speeds_of(options, folders));
  const store::Deal deal = store::deal_by_weight(speeds);
  PackJournal journal;
  PackPlan& plan = journal.plan;
  plan.model = fs::absolute(source.checkpoint->folder()).string();
  plan.folders = texts(folders);
  for (std::size_t i = 0; i < folders.size(); ++i) {
    if (deal.used[i]) plan.parts.push_back(folders[i].string());
  }
  plan.deal = deal.parts;
  plan.chunk_bytes = options.chunk_bytes;
  source.layout.index.deal = plan.deal;
  plan.identity = pack_identity(source.layout, plan.parts.size(), *source.checkpoint);
  const std::vector<std::byte> start = encode_plan(plan);
  journal.valid_bytes = start.size();
  SLUICE_TRY(write_for_good(folders[0] / store::kPackJournalName, start));
  return journal;
}

/// Whether a pack that was begun can be gone on with.
Status check_resumable(const PackOptions& options, const std::vector<fs::path>& folders,
                       Source& source, const PackJournal& journal) {
  const PackPlan& plan = journal.plan;
  const fs::path where = folders[0] / store::kPackJournalName;
  if (plan.folders != texts(folders)) {
    return fail(ErrorKind::usage, "{}: the pack was begun with --out {}; start it the same way",
                where.string(), fmt::join(plan.folders, " --out "));
  }
  const bool same_deal =
      options.speeds.empty() || store::deal_by_weight(options.speeds).parts == plan.deal;
  if (plan.chunk_bytes != options.chunk_bytes || !same_deal) {
    return fail(ErrorKind::usage,
                "{}: the pack was begun with another --stripe or --speed; start it the same way",
                where.string());
  }
  store::PackIndex& index = source.layout.index;
  index.deal = plan.deal;
  const bool sound =
      !plan.parts.empty() && plan.parts.size() <= store::kMostParts &&
      plan.identity == pack_identity(source.layout, plan.parts.size(), *source.checkpoint);
  if (!sound || journal.blocks_written > index.blocks.size()) {
    return fail(ErrorKind::model_files,
                "{}: the pack was begun from {}, and the model's files have changed since (size, "
                "time or content); remove the pack's folders and start again",
                where.string(), plan.model);
  }
  return {};
}

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

/// Writes the blocks that the journal does not have yet.
class BlockWriter {
 public:
  using OnProgress = FunctionRef<void(std::uint64_t bytes_done)>;

  BlockWriter(const PackOptions& options, Source& source, PackJournal& journal, PackOutput& output)
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

  Source& source_;
  PackJournal& journal_;
  PackOutput& output_;
  const store::Stripes stripes_;
  const std::uint64_t sync_bytes_;
  store::Checksum checksum_;
  std::vector<std::uint64_t> fresh_;  // of units since the last note
  std::uint64_t unsynced_ = 0;
};

/// Where the parts are and how long.
std::vector<PackPart> parts_of(const PackPlan& plan, std::uint64_t stream) {
  const store::Stripes stripes(plan.chunk_bytes, plan.deal, plan.parts.size());
  std::vector<PackPart> parts;
  for (std::size_t part = 0; part < plan.parts.size(); ++part) {
    parts.push_back({fs::path(plan.parts[part]) / store::pack_part_name(part, plan.parts.size()),
                     store::kPartHeaderBytes + stripes.part_bytes(part, stream)});
  }
  return parts;
}

/// Reads everything back; blocks that came back wrong are to be written again by the next start.
class ReadBack {
 public:
  ReadBack(const store::PackIndex& index, const std::vector<PackPart>& parts, PackJournal& journal,
           PackOutput& output)
      : index_(index), parts_(parts), journal_(journal), output_(output) {}

  Status run(FunctionRef<void(std::uint64_t)> progress, const Cancellation* cancellation) {
    SLUICE_ASSIGN(auto reader, io::make_reader(io::IoMode::automatic));
    std::vector<store::ShardFile> files;
    std::vector<io::FileId> ids;
    for (const PackPart& part : parts_) {
      SLUICE_ASSIGN(const io::FileId id, reader->open(part.path));
      files.push_back({part.path, {}, part.bytes});
      ids.push_back(id);
    }
    const auto pack = std::make_shared<const store::Pack>(index_, files);
    std::uint64_t noted = pack->block_offset(journal_.blocks_verified);
    SLUICE_TRY(verify_stream(
        pack, std::move(reader), ids, journal_.blocks_verified,
        [&](std::size_t block, VerifyFault fault) { keep(block, std::move(fault)); },
        [&](std::size_t block) -> Status {
          const std::uint64_t done = pack->block_offset(block);
          progress(done);
          if (fault_ || done < noted + kVerifiedStep) return {};
          noted = done;
          return output_.append(record_verified(block));
        },
        cancellation));
    return fault_ ? give_up() : output_.append(record_verified(pack->blocks()));
  }

 private:
  void keep(std::size_t block, VerifyFault fault) {
    if (fault_) return;
    fault_ = std::move(fault);
    bad_block_ = block;
  }

  Status give_up() {
    store::BlockWalk walk(index_);
    while (walk.block() < bad_block_) walk.next();
    SLUICE_TRY(output_.append(record_rewind(walk.block(), walk.first_unit())));
    return fail(ErrorKind::drive,
                "{}; the drive did not give back what was written to it: start the same command "
                "again to write it anew, and use another drive if this comes again",
                fault_->message);
  }

  const store::PackIndex& index_;
  const std::vector<PackPart>& parts_;
  PackJournal& journal_;
  PackOutput& output_;
  std::optional<VerifyFault> fault_;
  std::size_t bad_block_ = 0;
};

PackSummary summary_of(const store::PackIndex& index, const PackPlan& plan,
                       std::vector<PackPart> parts) {
  PackSummary summary;
  summary.blocks = index.blocks.size();
  summary.checksums = store::unit_count(index);
  for (const PackPart& part : parts) summary.bytes += part.bytes;
  for (const std::string& folder : plan.folders) {
    if (std::ranges::find(plan.parts, folder) == plan.parts.end()) {
      summary.unused.emplace_back(folder);
    }
  }
  summary.parts = std::move(parts);
  return summary;
}

/// Writes, reads back and publishes.
Result<PackSummary> carry_out(const PackOptions& options, const fs::path& folder, Source& source,
                              PackJournal& journal, FunctionRef<void(const PackProgress&)> progress,
                              const Cancellation* cancellation) {
  store::PackIndex& index = source.layout.index;
  const std::uint64_t stream = store::stream_bytes(index);
  const std::vector<PackPart> parts = parts_of(journal.plan, stream);
  // Index and journal have each checksum once.
  SLUICE_TRY(check_room(parts, folder,
                        2 * store::encode_pack_index(index).size() +
                            3 * sizeof(std::uint64_t) * store::unit_count(index)));
  SLUICE_ASSIGN(std::unique_ptr<PackOutput> output,
                open_pack_output(folder, parts, journal.valid_bytes));
  if (options.wrap_output) output = options.wrap_output(std::move(output));
  for (std::size_t part = 0; part < parts.size(); ++part) {
    SLUICE_TRY(output->write(part, 0,
                             store::part_header(journal.plan.identity, part, parts.size(),
                                                parts[part].bytes - store::kPartHeaderBytes)));
  }
  PackProgress now;
  now.bytes_total = stream;
  const auto offset_of = [&](std::uint64_t block) {
    store::BlockWalk walk(index);
    while (walk.block() < block) walk.next();
    return walk.offset();
  };
  PackSummary summary = summary_of(index, journal.plan, parts);
  summary.resumed_at = now.bytes_before = offset_of(journal.blocks_written);
  SLUICE_TRY(BlockWriter(options, source, journal, *output)
                 .run(
                     [&](std::uint64_t done) {
                       now.bytes_done = done;
                       progress(now);
                     },
                     cancellation));
  SLUICE_TRY(output->sync());
  SLUICE_TRY(copy_companions(source.companions, source.checkpoint->folder(), folder));
  source.reader.reset();  // and its memory
  index.identity = journal.plan.identity;
  index.folders = journal.plan.parts;
  index.checksums = journal.checksums;
  index.companions = source.companions;
  now.stage = PackProgress::Stage::verifying;
  now.bytes_before = offset_of(journal.blocks_verified);
  SLUICE_TRY(ReadBack(index, parts, journal, *output)
                 .run(
                     [&](std::uint64_t done) {
                       now.bytes_done = done;
                       progress(now);
                     },
                     cancellation));
  SLUICE_TRY(output->publish(store::encode_pack_index(index)));
  return summary;
}

/// A pack that is there already is the one that is asked for, or in the way.
Result<PackSummary> already_there(const fs::path& folder, const store::PackIndex& finished,
                                  Source& source) {
  store::PackIndex& index = source.layout.index;
  index.deal = finished.deal;
  index.chunk_bytes = finished.chunk_bytes;
  const std::uint64_t identity =
      pack_identity(source.layout, finished.folders.size(), *source.checkpoint);
  if (finished.identity != identity || finished.companions != source.companions) {
    return fail(ErrorKind::usage,
                "{}: the folder holds a finished pack of another model, or of this one before it "
                "changed; give a new or an empty folder",
                folder.string());
  }
  std::error_code ignored;
  fs::remove(folder / store::kPackJournalName, ignored);  // of a start that ended just before that
  PackPlan plan;
  plan.parts = finished.folders;
  plan.deal = finished.deal;
  plan.chunk_bytes = finished.chunk_bytes;
  PackSummary summary = summary_of(finished, plan, parts_of(plan, store::stream_bytes(finished)));
  summary.was_there = true;
  return summary;
}

}  // namespace

Result<PackSummary> pack(const PackOptions& options,
                         FunctionRef<void(const PackProgress&)> progress,
                         const Cancellation* cancellation) {
  SLUICE_CHECK(options.speeds.empty() || options.speeds.size() == options.folders.size());
  SLUICE_ASSIGN(Source source, open_source(options));
  SLUICE_ASSIGN(const std::vector<fs::path> folders,
                make_pack_folders(options.folders, source.checkpoint->folder()));
  std::vector<FolderLock> locks;
  for (const fs::path& folder : folders) {
    SLUICE_ASSIGN(FolderLock lock, FolderLock::take(folder, "sluice pack"));
    locks.push_back(std::move(lock));
  }
  SLUICE_ASSIGN(const auto finished, read_finished(folders[0]));
  if (finished) return already_there(folders[0], *finished, source);
  SLUICE_ASSIGN(std::optional<PackJournal> journal, read_journal(folders[0]));
  if (journal) {
    SLUICE_TRY(check_resumable(options, folders, source, *journal));
  } else {
    SLUICE_ASSIGN(journal, begin(options, folders, source));
  }
  return carry_out(options, folders[0], source, *journal, progress, cancellation);
}

}  // namespace sluice::engine
