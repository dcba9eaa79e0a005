#include "engine/pack.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "engine/drive_speed.h"
#include "engine/folder_lock.h"
#include "engine/pack_folders.h"
#include "engine/pack_journal.h"
#include "engine/pack_read_back.h"
#include "engine/pack_source.h"
#include "engine/pack_writer.h"
#include "store/pack.h"
#include "store/pack_stripes.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;

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
  out.reserve(paths.size());
  for (const fs::path& path : paths) out.push_back(path.string());
  return out;
}

/// Makes the plan of a new pack and begins its journal.
Result<PackJournal> begin(const PackOptions& options, const std::vector<fs::path>& folders,
                          PackSource& source) {
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
                       PackSource& source, const PackJournal& journal) {
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
Result<PackSummary> carry_out(const PackOptions& options, const fs::path& folder,
                              PackSource& source, PackJournal& journal,
                              FunctionRef<void(const PackProgress&)> progress,
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
  const auto show = [&](std::uint64_t done) {
    now.bytes_done = done;
    progress(now);
  };
  PackSummary summary = summary_of(index, journal.plan, parts);
  summary.resumed_at = now.bytes_before = offset_of(journal.blocks_written);
  SLUICE_TRY(write_blocks(options, source, journal, *output, show, cancellation));
  SLUICE_TRY(output->sync());
  SLUICE_TRY(copy_companions(source.companions, source.checkpoint->folder(), folder));
  source.reader.reset();  // and its memory
  index.identity = journal.plan.identity;
  index.folders = journal.plan.parts;
  index.checksums = journal.checksums;
  index.companions = source.companions;
  now.stage = PackProgress::Stage::verifying;
  now.bytes_before = offset_of(journal.blocks_verified);
  SLUICE_TRY(read_back(index, parts, journal, *output, show, cancellation));
  SLUICE_TRY(output->publish(store::encode_pack_index(index)));
  return summary;
}

/// A pack that is there already is the one that is asked for, or in the way.
Result<PackSummary> already_there(const fs::path& folder, const store::PackIndex& finished,
                                  PackSource& source) {
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
  SLUICE_ASSIGN(PackSource source, open_pack_source(options));
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
