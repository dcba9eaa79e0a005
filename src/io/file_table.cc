#include "io/file_table.h"

#include <utility>

#include "base/check.h"

namespace sluice::io {

Result<FileId> FileTable::open(const std::filesystem::path& path, const System& system,
                               const PieceFileMaker& maker) {
  const std::scoped_lock lock(mutex_);
  const auto known = ids_.find(path.native());
  if (known != ids_.end()) return known->second;

  SLUICE_ASSIGN(File file, File::open(path, system));
  Drive& drive = drive_of(file);
  SLUICE_ASSIGN(std::unique_ptr<PieceFile> pieces, maker(std::move(file), drive));
  files_.push_back(std::make_unique<OpenFile>(std::move(pieces), drive));
  const auto id = static_cast<FileId>(files_.size() - 1);
  ids_.emplace(path.native(), id);
  return id;
}

OpenFile& FileTable::operator[](FileId file) const {
  const std::scoped_lock lock(mutex_);
  SLUICE_CHECK(file < files_.size());
  return *files_[file];
}

Drive& FileTable::drive_of(const File& file) {
  for (const auto& drive : drives_) {
    if (drive->device() == file.facts().device) return *drive;
  }
  std::filesystem::path folder = file.path().parent_path();
  if (folder.empty()) folder = ".";
  drives_.push_back(std::make_unique<Drive>(file.facts().device, folder.string(), drives_.size()));
  return *drives_.back();
}

void FileTable::report_stalls(Clock::duration limit) const {
  const std::scoped_lock lock(mutex_);
  for (const auto& drive : drives_) drive->report_stall(limit);
}

void FileTable::add_statistics(ReaderStatistics& statistics) const {
  const std::scoped_lock lock(mutex_);
  for (const auto& drive : drives_) {
    DriveStatistics& counted = statistics.drives.emplace_back();
    counted = {.path = drive->folder(),
               .device = drive->device(),
               .reads = drive->requests(),
               .bytes = drive->bytes(),
               .queue_depth = drive->depth(),
               .busy_s = drive->busy_s(),
               .direct = true};
    for (std::size_t priority = 0; priority < kPriorities; ++priority) {
      counted.bytes_by_priority[priority] = drive->bytes(static_cast<Priority>(priority));
    }
  }
  for (const auto& file : files_) {
    const bool direct = file->pieces->direct();
    statistics.files.push_back({.path = file->path().string(),
                                .reads = file->requests.load(),
                                .bytes = file->bytes.load(),
                                .faults = file->faults.load(),
                                .direct = direct});
    DriveStatistics& drive = statistics.drives[file->drive.index()];
    drive.faults += file->faults.load();
    if (!direct) drive.direct = false;
  }
}

}  // namespace sluice::io
