#include "io/lane_reader.h"

#include <utility>

namespace sluice::io {

namespace {

constexpr int kLooksPerStall = 8;

}  // namespace

LaneReader::LaneReader(const ReaderOptions& options, PieceFileMaker file_maker,
                       LaneMaker lane_maker)
    : system_(*options.system),
      file_maker_(std::move(file_maker)),
      lane_maker_(std::move(lane_maker)),
      watch_(options.stall_after / kLooksPerStall,
             [this, limit = options.stall_after] { files_.report_stalls(limit); }) {}

Result<FileId> LaneReader::open(const std::filesystem::path& path) {
  SLUICE_ASSIGN(const FileId file, files_.open(path, system_, file_maker_));
  SLUICE_TRY(ensure_lane(files_[file]));
  return file;
}

Status LaneReader::ensure_lane(const OpenFile& file) {
  const std::size_t index = file.drive.index();
  const std::scoped_lock lock(lanes_mutex_);
  if (lanes_.size() <= index) lanes_.resize(index + 1);
  if (lanes_[index] != nullptr) return {};
  SLUICE_ASSIGN(lanes_[index], lane_maker_(file, delivery_));
  return {};
}

Lane& LaneReader::lane_of(const Drive& drive) const {
  const std::scoped_lock lock(lanes_mutex_);
  return *lanes_[drive.index()];
}

Lane* LaneReader::next_lane(std::size_t& index) const {
  const std::scoped_lock lock(lanes_mutex_);
  while (index < lanes_.size()) {
    if (Lane* const lane = lanes_[index++].get(); lane != nullptr) return lane;
  }
  return nullptr;
}

void LaneReader::submit(std::span<const ReadRequest> requests) {
  for (const ReadRequest& request : requests) {
    OpenFile& file = files_[request.extent.file];
    lane_of(file.drive).queue().push(request, file);
  }
  std::size_t at = 0;
  while (Lane* const lane = next_lane(at)) lane->wake();
}

void LaneReader::promote(const CompletionSink& sink, std::uint64_t tag) {
  std::size_t at = 0;
  while (Lane* const lane = next_lane(at)) lane->queue().promote(sink, tag);
}

void LaneReader::cancel(const CompletionSink& sink) {
  std::size_t at = 0;
  while (Lane* const lane = next_lane(at)) {
    lane->queue().drop(sink);
    lane->wake();
  }
  at = 0;
  while (Lane* const lane = next_lane(at)) lane->queue().wait_for(sink);
}

ReaderStatistics LaneReader::statistics() const {
  ReaderStatistics statistics;
  delivery_.add_statistics(statistics);
  files_.add_statistics(statistics);
  return statistics;
}

std::uint64_t LaneReader::memory_bytes() const {
  std::uint64_t bytes = watch_.memory_bytes();
  std::size_t at = 0;
  while (const Lane* const lane = next_lane(at)) bytes += lane->memory_bytes();
  return bytes;
}

}  // namespace sluice::io
