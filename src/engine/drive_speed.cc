#include "engine/drive_speed.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <utility>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/ledger.h"
#include "base/size.h"
#include "io/file.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLeastBytes = std::uint64_t{32} << 20;  // of a file that says something
constexpr std::size_t kWriteBytes = std::size_t{4} << 20;

/// A regular file that is large enough and mostly data.
bool is_worth_reading(const fs::path& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return false;
  const auto size = static_cast<std::uint64_t>(facts.st_size);
  const auto stored = static_cast<std::uint64_t>(facts.st_blocks) * 512;
  return size >= kLeastBytes && stored >= size / 2;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Rooms for extents, handed out and taken back as reads complete.
class Rooms final : public io::CompletionSink {
 public:
  Rooms(std::span<std::byte> memory, std::size_t room_bytes) : memory_(memory), room_(room_bytes) {
    for (std::size_t i = 0; i < memory.size() / room_bytes; ++i) free_.push_back(i);
    count_ = free_.size();
  }

  /// Waits for a free room.
  std::uint64_t take() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return !free_.empty(); });
    const std::uint64_t room = free_.back();
    free_.pop_back();
    return room;
  }
  std::span<std::byte> bytes(std::uint64_t room) const {
    return memory_.subspan(room * room_, room_);
  }
  /// Waits for all reads; the first error of them, if there was one.
  Status finish() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return free_.size() == count_; });
    if (error_) return tl::unexpected(*error_);
    return {};
  }
  bool failed() {
    const std::scoped_lock lock(mutex_);
    return error_.has_value();
  }

  void complete(io::Completion completion) noexcept override {
    const std::scoped_lock lock(mutex_);
    if (!completion.bytes && !error_) error_ = std::move(completion.bytes).error();
    free_.push_back(completion.tag);
    arrived_.notify_one();
  }

 private:
  std::span<std::byte> memory_;
  std::size_t room_;
  std::size_t count_ = 0;
  std::mutex mutex_;  // guards what follows
  std::condition_variable arrived_;
  std::vector<std::uint64_t> free_;
  std::optional<Error> error_;
};

/// Picks random extents, each byte of the files equally likely.
class Picker {
 public:
  Picker(const io::Reader& reader, const std::vector<io::FileId>& files) : files_(files) {
    for (const io::FileId file : files) {
      sizes_.push_back(reader.size(file));
      all_ += reader.size(file);
    }
  }
  std::uint64_t smallest() const { return *std::min_element(sizes_.begin(), sizes_.end()); }

  io::Extent pick(std::uint64_t length) {
    std::uint64_t at = random_() % all_;
    std::size_t file = 0;
    while (at >= sizes_[file]) at -= sizes_[file++];
    return {files_[file], std::min(at, sizes_[file] - length), length};
  }

 private:
  const std::vector<io::FileId>& files_;
  std::vector<std::uint64_t> sizes_;
  std::uint64_t all_ = 0;
  std::mt19937_64 random_{std::random_device{}()};
};

Status run(io::Reader& reader, Picker& picker, std::uint64_t extent, double seconds, Rooms& rooms) {
  const auto start = Clock::now();
  do {
    const std::uint64_t tag = rooms.take();
    const io::ReadRequest request{.extent = picker.pick(extent),
                                  .room = rooms.bytes(tag),
                                  .purpose = io::Purpose::expert,
                                  .tag = tag,
                                  .sink = &rooms};
    reader.submit({&request, 1});
  } while (seconds_since(start) < seconds && !rooms.failed());
  return rooms.finish();
}

}  // namespace

TrialFiles::TrialFiles(TrialFiles&& other) noexcept
    : paths_(std::move(other.paths_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

TrialFiles& TrialFiles::operator=(TrialFiles&& other) noexcept {
  std::swap(paths_, other.paths_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

TrialFiles::~TrialFiles() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

TrialFiles TrialFiles::among(const std::vector<fs::path>& files) {
  TrialFiles found;
  std::copy_if(files.begin(), files.end(), std::back_inserter(found.paths_), is_worth_reading);
  return found;
}

Status TrialFiles::check(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return fail(ErrorKind::usage, "{}: there is no such file or folder", path.string());
  }
  if (fs::is_directory(status) || fs::is_regular_file(status)) return {};
  return fail(ErrorKind::usage,
              "{}: neither a file nor a folder; to measure a drive, give a folder on it",
              path.string());
}

Result<TrialFiles> TrialFiles::find(const fs::path& path, std::uint64_t temporary_bytes) {
  SLUICE_TRY(check(path));
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  std::vector<fs::path> candidates;
  if (is_folder) {
    for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
      candidates.push_back(at->path());
    }
    std::sort(candidates.begin(), candidates.end());
  } else {
    candidates.push_back(path);
  }
  TrialFiles found = among(candidates);
  if (!found.paths_.empty()) return found;
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  SLUICE_TRY(found.write_temporary(is_folder ? path : parent, temporary_bytes));
  return found;
}

Status TrialFiles::write_temporary(const fs::path& folder, std::uint64_t bytes) {
  const auto failed = [&](int code) {
    return fail(ErrorKind::drive,
                "{}: no file there is large enough to measure the drive with ({} of data), and a "
                "temporary one cannot be written: {}",
                folder.string(), format_size(kLeastBytes), io::error_text(code));
  };
#ifdef O_TMPFILE
  // Without a name nothing can be left behind, whenever the program ends.
  descriptor_ = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
#endif
  if (descriptor_ < 0) {
    std::string name = (folder / ".sluice-trial-XXXXXX").string();
    descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (descriptor_ < 0) return failed(errno);
    ::unlink(name.c_str());
  }
  std::vector<std::uint64_t> block(kWriteBytes / sizeof(std::uint64_t));
  std::mt19937_64 random(1);  // drives that compress gain nothing
  for (std::uint64_t done = 0; done < bytes;) {
    for (std::uint64_t& word : block) word = random();
    const ssize_t written = ::write(descriptor_, block.data(), kWriteBytes);
    if (written <= 0) return failed(written < 0 ? errno : ENOSPC);
    done += static_cast<std::uint64_t>(written);
  }
  if (::fdatasync(descriptor_) != 0) return failed(errno);
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
  paths_.emplace_back("/proc/self/fd/" + std::to_string(descriptor_));
  return {};
}

Result<DriveSpeed> measure_drive(const TrialFiles& files, const DriveTrial& trial) {
  SLUICE_ASSIGN(const std::unique_ptr<io::Reader> reader, io::make_reader(trial.mode));
  std::vector<io::FileId> ids;
  for (const fs::path& path : files.paths()) {
    SLUICE_ASSIGN(const io::FileId id, reader->open(path));
    ids.push_back(id);
  }
  if (ids.empty()) return fail(ErrorKind::usage, "no file is large enough to measure a drive with");
  Picker picker(*reader, ids);
  const std::uint64_t extent = std::clamp<std::uint64_t>(
      trial.extent_bytes, 1, std::max<std::uint64_t>(1, picker.smallest() / 4));
  const std::uint64_t room = round_up(reader->room_for(extent), std::uint64_t{2} << 20);
  MemoryLedger ledger(std::uint64_t{1} << 40);
  SLUICE_ASSIGN(Buffer memory, Buffer::allocate(room * trial.in_flight, Tenant::experts, ledger));
  memory.touch();
  Rooms rooms(memory.bytes(), room);
  DriveSpeed speed;
  const auto start = Clock::now();
  const double cpu = cpu_seconds();
  SLUICE_TRY(run(*reader, picker, extent, trial.seconds, rooms));
  speed.seconds = seconds_since(start);
  speed.cpu_s = cpu_seconds() - cpu;
  const io::ReaderStatistics statistics = reader->statistics();
  speed.direct = true;
  for (const io::DriveStatistics& drive : statistics.drives) {
    speed.bytes += drive.bytes;
    speed.direct = speed.direct && drive.direct;
  }
  speed.bytes_per_s = static_cast<double>(speed.bytes) / speed.seconds;
  return speed;
}

}  // namespace sluice::engine
