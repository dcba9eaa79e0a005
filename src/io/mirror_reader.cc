#include "io/mirror_reader.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "io/mirror_queue.h"
#include "io/stall_watch.h"

namespace sluice::io {
namespace {

namespace fs = std::filesystem;

// Parts and requests under way: a bound for what a layer of the largest models asks for at once.
constexpr std::uint64_t kBookkeepingBytes = std::uint64_t{256} << 10;

/// A file as it was asked for, and where it can be read.
struct MirroredFile {
  fs::path path;
  std::vector<FileCopy> copies;
  std::uint64_t size = 0;
};

class MirrorReader final : public Reader {
 public:
  MirrorReader(std::unique_ptr<Reader> inner, std::vector<Mirrored> files,
               std::chrono::milliseconds patience)
      : inner_(std::move(inner)), queue_(patience) {
    for (Mirrored& file : files) mirrored_[file.original.native()] = std::move(file.copies);
    watch_.emplace(patience / 2, [this] {
      const std::scoped_lock lock(mutex_);
      start_parts();
    });
  }
  MirrorReader(const MirrorReader&) = delete;
  MirrorReader& operator=(const MirrorReader&) = delete;
  ~MirrorReader() override;

  Result<FileId> open(const fs::path& path) override;
  std::uint64_t size(FileId file) const override { return at(file).size; }
  const fs::path& path(FileId file) const override { return at(file).path; }
  std::size_t drive_of(FileId file) const override { return at(file).copies.front().drive; }
  std::size_t room_for(std::uint64_t length) const override { return inner_->room_for(length); }
  void submit(std::span<const ReadRequest> requests) override;
  void promote(const CompletionSink& sink, std::uint64_t tag) override;
  void cancel(const CompletionSink& sink) override;
  ReaderStatistics statistics() const override;
  std::uint64_t memory_bytes() const override {
    return inner_->memory_bytes() + kBookkeepingBytes + watch_->memory_bytes();
  }

 private:
  /// A request, standing in as the sink of its parts.
  struct Flight final : CompletionSink {
    Flight(MirrorReader& reader, std::uint64_t id, const ReadRequest& request,
           const MirroredFile& from)
        : owner(reader), number(id), asked(request), file(from) {}
    void complete(Completion completion) noexcept override {
      owner.arrived(*this, std::move(completion));  // may end this flight's life
    }

    MirrorReader& owner;
    const std::uint64_t number;
    ReadRequest asked;
    const MirroredFile& file;
    std::size_t parts_left = 0;
    bool dropped = false;        // no part goes out any more
    std::string losses;          // what copies answered instead of bytes
    std::optional<Error> error;  // why it will not arrive; the first reason counts
  };
  using FlightPointer = std::shared_ptr<Flight>;
  using Flights = std::map<std::uint64_t, FlightPointer>;

  const MirroredFile& at(FileId file) const {
    const std::scoped_lock lock(mutex_);
    SLUICE_CHECK(file < files_.size());
    return *files_[file];
  }
  static MirrorQueue::Parts cut(const Flight& flight);
  Error interrupted(const Flight& flight) const;

  // All of these want mutex_ held.
  void launch(const ReadRequest& request);
  void hand_to_inner(Flight& flight, MirrorPart& part);
  void start_parts();
  void take_failure(Flight& flight, MirrorPart& part, Error error, std::string& warning);
  void give_up(Flight& flight, Error error);
  std::vector<FlightPointer> drop_flights(const CompletionSink* sink);
  std::vector<FlightPointer> flights_of(const CompletionSink& sink) const;

  void arrived(Flight& flight, Completion completion);
  void deliver(Flight& flight);

  std::unique_ptr<Reader> inner_;
  std::map<std::string, std::vector<fs::path>> mirrored_;  // copies by the original's path
  std::array<std::atomic<std::uint64_t>, kPurposes> by_purpose_{};
  std::array<std::atomic<std::uint64_t>, kPriorities> by_priority_{};

  // Guards what follows. The inner reader's locks may be taken under it; sinks are called without.
  mutable std::mutex mutex_;
  std::condition_variable gone_;
  std::vector<std::unique_ptr<MirroredFile>> files_;
  std::unordered_map<std::string, FileId> ids_;
  Flights flights_;  // by number: all that are not delivered yet
  std::uint64_t next_number_ = 0;
  MirrorQueue queue_;
  std::vector<bool> complained_;  // by drive: its first failure was reported

  // When a drive falls silent nothing arrives that would start what waits for it elsewhere.
  std::optional<StallWatch> watch_;
};

MirrorReader::~MirrorReader() {
  watch_.reset();  // it looks at all of the rest
  std::vector<FlightPointer> over;
  {
    const std::scoped_lock lock(mutex_);
    over = drop_flights(nullptr);
  }
  for (const FlightPointer& flight : over) deliver(*flight);
  // Settles the parts under way. Nothing that arrives asks the inner reader any more: all that
  // waited is dropped, and what was asked for once does not go to another copy.
  inner_.reset();
}

Result<FileId> MirrorReader::open(const fs::path& path) {
  {
    const std::scoped_lock lock(mutex_);
    const auto known = ids_.find(path.native());
    if (known != ids_.end()) return known->second;
  }
  std::vector<fs::path> places = {path};
  const auto mirrored = mirrored_.find(path.native());
  if (mirrored != mirrored_.end()) {
    places.insert(places.end(), mirrored->second.begin(), mirrored->second.end());
  }
  if (places.size() > kMaxCopies) {
    return fail(ErrorKind::usage, "{}: {} copies; at most {} can be used", path.string(),
                places.size(), kMaxCopies);
  }
  auto file = std::make_unique<MirroredFile>();
  file->path = path;
  std::optional<Error> lost;
  for (const fs::path& place : places) {
    const auto id = inner_->open(place);
    if (!id) {
      if (places.size() > 1) log_warning("{}; going on without this copy", id.error().message);
      if (!lost) lost = id.error();
      continue;
    }
    if (!file->copies.empty() && inner_->size(*id) != file->size) {
      return fail(ErrorKind::model_files, "{}: expected {} bytes as in {}, found {}",
                  place.string(), file->size, path.string(), inner_->size(*id));
    }
    file->size = inner_->size(*id);
    file->copies.push_back({*id, inner_->drive_of(*id), place.parent_path().string()});
  }
  if (file->copies.empty()) return tl::unexpected(*std::move(lost));
  const std::scoped_lock lock(mutex_);
  files_.push_back(std::move(file));
  const auto id = static_cast<FileId>(files_.size() - 1);
  return ids_.emplace(path.native(), id).first->second;
}

/// The parts of a request, in order. Together they fill the room as one read would.
MirrorQueue::Parts MirrorReader::cut(const Flight& flight) {
  const Extent& extent = flight.asked.extent;
  const std::size_t skip = extent.offset % kRoomAlignment;
  MirrorPart part{.owner = flight.number,
                  .copies = &flight.file.copies,
                  .offset = extent.offset,
                  .length = extent.length,
                  .priority = flight.asked.priority};
  MirrorQueue::Parts parts;
  // One copy leaves no choice, and a bad extent is for the reader to refuse.
  if (part.copies->size() == 1 || !lies_inside(extent, flight.file.size)) {
    parts.push_back(part);
    return parts;
  }
  const std::uint64_t window = skip + extent.length;
  for (std::uint64_t from = 0; from == 0 || from < window; from += MirrorQueue::kPartBytes) {
    const std::uint64_t to = std::min(window, from + MirrorQueue::kPartBytes);
    part.offset = extent.offset - skip + std::max<std::uint64_t>(from, skip);
    part.length = extent.offset - skip + to - part.offset;
    part.room_offset = static_cast<std::size_t>(from);
    parts.push_back(part);
  }
  return parts;
}

void MirrorReader::submit(std::span<const ReadRequest> requests) {
  const std::scoped_lock lock(mutex_);
  for (const ReadRequest& request : requests) launch(request);
  start_parts();
}

void MirrorReader::launch(const ReadRequest& request) {
  SLUICE_CHECK(request.extent.file < files_.size() && request.sink != nullptr);
  const auto flight =
      std::make_shared<Flight>(*this, next_number_++, request, *files_[request.extent.file]);
  MirrorQueue::Parts parts = cut(*flight);
  flight->parts_left = parts.size();
  flights_.emplace(flight->number, flight);
  if (flight->file.copies.size() == 1) {
    hand_to_inner(*flight, queue_.begin(parts.front(), Clock::now()));
  } else {
    queue_.push(std::move(parts));
  }
}

void MirrorReader::start_parts() {
  while (MirrorPart* part = queue_.next(Clock::now())) {
    hand_to_inner(*flights_.at(part->owner), *part);
  }
}

void MirrorReader::hand_to_inner(Flight& flight, MirrorPart& part) {
  const ReadRequest request{.extent = {part.at().file, part.offset, part.length},
                            .room = flight.asked.room.subspan(part.room_offset),
                            .priority = part.priority,
                            .purpose = flight.asked.purpose,
                            .tag = reinterpret_cast<std::uintptr_t>(&part),
                            .sink = &flight,
                            .label = flight.asked.label};
  inner_->submit({&request, 1});
}

void MirrorReader::arrived(Flight& flight, Completion completion) {
  bool over = false;
  std::string warning;
  {
    const std::scoped_lock lock(mutex_);
    MirrorPart& part = *reinterpret_cast<MirrorPart*>(completion.tag);
    if (!completion.bytes && completion.bytes.error().kind == ErrorKind::drive) {
      take_failure(flight, part, std::move(completion.bytes).error(), warning);
    } else {
      const bool came = completion.bytes.has_value();
      if (!came) give_up(flight, std::move(completion.bytes).error());
      queue_.report(part, came ? MirrorQueue::Outcome::arrived : MirrorQueue::Outcome::dropped,
                    Clock::now());
      queue_.finish(part);
      --flight.parts_left;
    }
    over = flight.parts_left == 0;
    start_parts();
  }
  if (!warning.empty()) log_warning("{}", warning);
  if (over) deliver(flight);
}

/// A copy did not give a part: on to the next, or to the end of the request.
void MirrorReader::take_failure(Flight& flight, MirrorPart& part, Error error,
                                std::string& warning) {
  const bool left_alone = queue_.report(part, MirrorQueue::Outcome::failed, Clock::now());
  const std::size_t drive = part.at().drive;
  part.tried |= std::uint32_t{1} << part.copy;
  if (flight.file.copies.size() == 1) {
    give_up(flight, std::move(error));
  } else {
    if (complained_.size() <= drive) complained_.resize(drive + 1);
    const bool first = !complained_[drive];
    complained_[drive] = true;
    const bool goes_on = !flight.dropped && MirrorQueue::can_retry(part);
    if (first) warning = error.message + (goes_on ? " Trying another copy." : "");
    if (left_alone) {
      warning += fmt::format(
          "{}{}: {} reads in a row failed; from now on this drive is left alone where there is "
          "another copy",
          first ? "\n" : "", part.at().folder, MirrorQueue::kFailures);
    }
    flight.losses += (flight.losses.empty() ? "" : "\n") + error.message;
    if (goes_on) {
      part.priority = flight.asked.priority;  // it may have been promoted meanwhile
      return queue_.retry(part);
    }
    if (!flight.dropped) {
      give_up(flight,
              {ErrorKind::drive,
               fmt::format("no copy of {} gives the {} bytes at offset {}:\n{}",
                           flight.file.path.string(), part.length, part.offset, flight.losses)});
    } else if (!flight.error) {
      flight.error = interrupted(flight);
    }
  }
  queue_.finish(part);
  --flight.parts_left;
}

/// The request fails: what of it has not gone out stays here.
void MirrorReader::give_up(Flight& flight, Error error) {
  if (!flight.error) flight.error = std::move(error);
  flight.dropped = true;
  flight.parts_left -= queue_.drop(flight.number);
}

void MirrorReader::deliver(Flight& flight) {
  CompletionSink* const sink = flight.asked.sink;
  const ReadRequest& asked = flight.asked;
  if (flight.error) {
    sink->complete({asked.tag, tl::unexpected(*std::move(flight.error))});
  } else {
    const std::uint64_t length = asked.extent.length;
    by_purpose_[static_cast<std::size_t>(asked.purpose)] += length;
    by_priority_[static_cast<std::size_t>(asked.priority)] += length;
    const std::size_t skip = asked.extent.offset % kRoomAlignment;
    sink->complete({asked.tag, std::span<const std::byte>(
                                   asked.room.subspan(skip, static_cast<std::size_t>(length)))});
  }
  // Notified under the lock: cancel() may end the sink's and the destructor our own life after it.
  const std::scoped_lock lock(mutex_);
  const std::uint64_t number = flight.number;
  flights_.erase(number);
  gone_.notify_all();
}

std::vector<MirrorReader::FlightPointer> MirrorReader::flights_of(
    const CompletionSink& sink) const {
  std::vector<FlightPointer> found;
  for (const auto& [number, flight] : flights_) {
    if (flight->asked.sink == &sink) found.push_back(flight);
  }
  return found;
}

void MirrorReader::promote(const CompletionSink& sink, std::uint64_t tag) {
  const std::scoped_lock lock(mutex_);
  for (const FlightPointer& flight : flights_of(sink)) {
    if (flight->asked.tag != tag) continue;
    if (flight->parts_left == 0) continue;  // being delivered, which looks at it without the lock
    flight->asked.priority = Priority::needed;
    queue_.promote(flight->number);
    for (const MirrorPart* part : queue_.under_way(flight->number)) {
      inner_->promote(*flight, reinterpret_cast<std::uintptr_t>(part));
    }
  }
  start_parts();
}

Error MirrorReader::interrupted(const Flight& flight) const {
  const Extent& extent = flight.asked.extent;
  return {ErrorKind::interrupted,
          fmt::format("{}: the read of {} bytes at offset {} was cancelled",
                      flight.file.path.string(), extent.length, extent.offset)};
}

/// Takes back what waits for the sink (null: for any). Returns the requests that are over with
/// that; the caller must deliver them.
std::vector<MirrorReader::FlightPointer> MirrorReader::drop_flights(const CompletionSink* sink) {
  std::vector<FlightPointer> over;
  for (const auto& [number, flight] : flights_) {
    if (sink != nullptr && flight->asked.sink != sink) continue;
    if (flight->parts_left == 0) continue;  // being delivered
    flight->dropped = true;
    const std::size_t dropped = queue_.drop(number);
    if (dropped > 0 && !flight->error) flight->error = interrupted(*flight);
    flight->parts_left -= dropped;
    if (flight->parts_left == 0) over.push_back(flight);
  }
  return over;
}

void MirrorReader::cancel(const CompletionSink& sink) {
  std::vector<FlightPointer> over;
  std::vector<FlightPointer> under_way;
  {
    const std::scoped_lock lock(mutex_);
    over = drop_flights(&sink);
    for (const FlightPointer& flight : flights_of(sink)) {
      if (flight->parts_left > 0) under_way.push_back(flight);
    }
  }
  for (const FlightPointer& flight : over) deliver(*flight);
  for (const FlightPointer& flight : under_way) inner_->cancel(*flight);
  std::unique_lock lock(mutex_);
  gone_.wait(lock, [&] { return flights_of(sink).empty(); });
}

ReaderStatistics MirrorReader::statistics() const {
  ReaderStatistics statistics = inner_->statistics();
  // Of requests, not of their parts: some came for requests that failed.
  for (std::size_t i = 0; i < kPurposes; ++i) statistics.requested_bytes[i] = by_purpose_[i];
  for (std::size_t i = 0; i < kPriorities; ++i) statistics.delivered_bytes[i] = by_priority_[i];
  return statistics;
}

}  // namespace

std::unique_ptr<Reader> make_mirror_reader(std::unique_ptr<Reader> inner,
                                           std::vector<Mirrored> files,
                                           std::chrono::milliseconds patience) {
  return std::make_unique<MirrorReader>(std::move(inner), std::move(files), patience);
}

}  // namespace sluice::io
