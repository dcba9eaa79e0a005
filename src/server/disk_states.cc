#include "server/disk_states.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/size.h"
#include "server/file_descriptor.h"

namespace sluice::server {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".state";
constexpr std::string_view kUnfinished = ".partial";
constexpr std::size_t kMostFiles = 4096;
constexpr std::uint64_t kFileBytes = 320;  // of memory, for one in the list

tl::unexpected<Error> failed(const fs::path& file, std::string_view what) {
  return fail(ErrorKind::drive, "{}: {}: {}", file.string(), what,
              std::generic_category().message(errno));
}

/// Fills `bytes` from the file's place.
Status read_all(int file, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::read(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed("a saved conversation", "cannot be read");
    if (count == 0) return fail(ErrorKind::model_files, "it is cut off");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

/// The system's own marks stand still for milliseconds, in which several files may be used.
void mark_used(int file) {
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const timespec times[] = {now, now};
  ::futimens(file, times);
}

/// Whatever else has this name (a pipe, a device, a link) is not opened, or not waited for.
int open_state(int folder, const std::string& name) {
  return ::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

Result<StateHead> read_head(int file) {
  struct stat status = {};
  if (::fstat(file, &status) != 0) return failed("a saved conversation", "cannot be read");
  if (!S_ISREG(status.st_mode)) return fail(ErrorKind::drive, "is no file");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size < kStateHeadBytes) return fail(ErrorKind::model_files, "it is cut off");
  std::array<std::byte, kStateHeadBytes> bytes{};
  SLUICE_TRY(read_all(file, bytes));
  return decode_head(bytes, size);
}

}  // namespace

std::uint64_t DiskStates::memory_bytes() { return kMostFiles * kFileBytes; }

DiskStates::DiskStates(int folder, fs::path path, std::uint64_t most_bytes,
                       const StateLimits& limits)
    : folder_(folder), path_(std::move(path)), most_bytes_(most_bytes), limits_(limits) {}

DiskStates::~DiskStates() { ::close(folder_); }

Result<std::unique_ptr<DiskStates>> DiskStates::open(const fs::path& folder,
                                                     std::uint64_t most_bytes,
                                                     const StateLimits& limits) {
  std::error_code error;
  fs::create_directories(folder.parent_path(), error);
  // What people said is nobody else's to read.
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return failed(folder, "cannot be made");
  }
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return failed(folder, "cannot be opened");
  std::unique_ptr<DiskStates> states(new DiskStates(descriptor, folder, most_bytes, limits));
  SLUICE_TRY(states->scan());
  return states;
}

Status DiskStates::scan() {
  struct Known {
    fs::file_time_type used;
    std::string name;
    std::uint64_t bytes;
  };
  std::vector<Known> all;
  std::error_code error;
  for (fs::directory_iterator each(path_, error), end; !error && each != end;
       each.increment(error)) {
    const std::string name = each->path().filename().string();
    if (name.ends_with(kUnfinished)) ::unlinkat(folder_, name.c_str(), 0);
    if (!name.ends_with(kSuffix)) continue;
    std::error_code gone;
    if (!fs::is_regular_file(each->symlink_status(gone))) {
      log_warning("{}: is no file, and not used", each->path().string());
      continue;
    }
    const std::uint64_t bytes = each->file_size(gone);
    const auto used = each->last_write_time(gone);
    if (!gone) all.push_back({used, name, bytes});
  }
  if (error) {
    return fail(ErrorKind::drive, "{}: cannot be read: {}", path_.string(), error.message());
  }
  std::sort(all.begin(), all.end(), [](const Known& a, const Known& b) {
    return std::tie(a.used, a.name) < std::tie(b.used, b.name);
  });
  const std::scoped_lock lock(mutex_);
  for (const Known& each : all) add_found(each.name, each.bytes);
  make_room(0, {});
  const auto foreign = std::count_if(files_.begin(), files_.end(),
                                     [](const auto& each) { return !each.second.head; });
  if (foreign > 0) {
    log_note("{}: {} saved conversations are of other models or versions and not used here",
             path_.string(), foreign);
  }
  return {};
}

/// Enters a file that was there before; the lock is held.
void DiskStates::add_found(const std::string& name, std::uint64_t bytes) {
  const File file = {bytes, ++turns_};
  const FileDescriptor opened(open_state(folder_, name));
  const auto head =
      opened.is_open() ? read_head(opened.get()) : failed(path_ / name, "cannot be opened");
  bytes_ += bytes;
  File& entered = files_.emplace(name, file).first->second;
  if (!head) return give_up(name, head.error());
  if (check_head(*head, limits_) && name == name_of(head->kind, head->key)) entered.head = *head;
}

std::string DiskStates::name_of(StateKind kind, std::uint64_t key) const {
  return fmt::format("{:016x}-{}-{:016x}{}", limits_.model,
                     kind == StateKind::answer ? "answer" : "conversation", key, kSuffix);
}

std::optional<DiskStates::Found> DiskStates::find(std::span<const std::int32_t> ids,
                                                  std::uint64_t adapter,
                                                  std::size_t longer_than) const {
  const std::scoped_lock lock(mutex_);
  std::set<std::size_t, std::greater<>> lengths;
  for (const auto& [name, file] : files_) {
    if (!file.head || file.head->kind != StateKind::conversation) continue;
    const std::uint64_t length = file.head->ids;
    if (length > ids.size() || length <= longer_than) continue;
    if (length < ids.size() || file.head->logits > 0) lengths.insert(length);
  }
  for (const std::size_t length : lengths) {
    const std::string name =
        name_of(StateKind::conversation, hash_of_ids(ids.first(length), adapter));
    const auto found = files_.find(name);
    if (found == files_.end() || !found->second.head || found->second.head->ids != length) continue;
    // Another file of this length may have logits and this one none.
    if (length < ids.size() || found->second.head->logits > 0) return Found{name, length};
  }
  return std::nullopt;
}

std::optional<DiskStates::Found> DiskStates::find_answer(std::uint64_t key) const {
  const std::string name = name_of(StateKind::answer, key);
  const std::scoped_lock lock(mutex_);
  const auto found = files_.find(name);
  if (found == files_.end() || !found->second.head) return std::nullopt;
  return Found{name, found->second.head->ids};
}

bool DiskStates::has_conversation(std::uint64_t key) const {
  const std::scoped_lock lock(mutex_);
  return files_.contains(name_of(StateKind::conversation, key));
}

std::optional<StateTexts> DiskStates::load(const Found& found,
                                           FunctionRef<bool(std::span<const std::int32_t>)> want,
                                           model::SequenceState& sequence) {
  const FileDescriptor file(open_state(folder_, found.name));
  auto texts = [&]() -> Result<std::optional<StateTexts>> {
    if (!file.is_open()) return failed(path_ / found.name, "cannot be opened");
    SLUICE_ASSIGN(const StateHead head, read_head(file.get()));
    SLUICE_TRY(check_head(head, limits_));
    return read_state_file(
        head, [&](std::span<std::byte> bytes) { return read_all(file.get(), bytes); }, want,
        sequence);
  }();
  const std::scoped_lock lock(mutex_);
  const auto known = files_.find(found.name);
  if (texts) {
    mark_used(file.get());
    if (known != files_.end()) known->second.turn = ++turns_;
    return std::move(*texts);
  }
  // It may have made room for others meanwhile: then it is gone, and nothing is wrong.
  if (known != files_.end()) give_up(found.name, texts.error());
  return std::nullopt;
}

Status DiskStates::write(StateHead head, std::span<const std::int32_t> ids,
                         std::span<const float> logits, std::span<const std::byte> trail,
                         FunctionRef<Status(ByteSink)> write_state) {
  head.model = limits_.model;
  const std::string name = name_of(head.kind, head.key);
  const std::uint64_t bytes = head.file_bytes();
  if (bytes > most_bytes_) {
    return fail(ErrorKind::memory,
                "one of {} is more than --state-disk allows for all together, {}; give it more",
                format_size(bytes), format_size(most_bytes_));
  }
  {
    const std::scoped_lock lock(mutex_);
    make_room(bytes, name);
  }
  SLUICE_TRY(write_file(name, [&](ByteSink sink) {
    return write_state_file(head, ids, logits, trail, write_state, sink);
  }));
  const std::scoped_lock lock(mutex_);
  File& file = files_[name];
  bytes_ += bytes - file.bytes;
  file = {bytes, ++turns_, head};
  return {};
}

Status DiskStates::write_file(const std::string& name, FunctionRef<Status(ByteSink)> contents) {
  const std::string unfinished = name + std::string(kUnfinished);
  ::unlinkat(folder_, unfinished.c_str(), 0);  // so that it is a new file, and ours
  FileDescriptor file(
      ::openat(folder_, unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.is_open()) return failed(path_ / unfinished, "cannot be made");
  Status written = [&]() -> Status {
    SLUICE_TRY(contents([&](std::span<const std::byte> bytes) -> Status {
      written_bytes_ += bytes.size();
      return file.write_all(bytes) ? Status() : failed(path_ / unfinished, "cannot be written");
    }));
    if (::fdatasync(file.get()) != 0 && errno != EINVAL) {
      return failed(path_ / unfinished, "cannot be written");
    }
    mark_used(file.get());
    // It is not read again soon, and the room in the page cache is worth more for others.
    ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
    if (::renameat(folder_, unfinished.c_str(), folder_, name.c_str()) != 0) {
      return failed(path_ / name, "cannot be made");
    }
    if (::fsync(folder_) != 0 && errno != EINVAL) return failed(path_, "cannot be written");
    return {};
  }();
  if (!written) ::unlinkat(folder_, unfinished.c_str(), 0);
  return written;
}

/// Removes the oldest until `bytes` more have room, the one that is replaced last of all; the lock
/// is held.
void DiskStates::make_room(std::uint64_t bytes, const std::string& replaced) {
  while (!files_.empty() && (bytes_ + bytes > most_bytes_ || files_.size() >= kMostFiles)) {
    auto oldest = files_.end();
    for (auto each = files_.begin(); each != files_.end(); ++each) {
      if (each->first == replaced) continue;
      if (oldest == files_.end() || each->second.turn < oldest->second.turn) oldest = each;
    }
    drop(oldest == files_.end() ? replaced : oldest->first);
  }
}

/// The lock is held.
void DiskStates::drop(const std::string& name) {
  const auto file = files_.find(name);
  if (file == files_.end()) return;
  ::unlinkat(folder_, name.c_str(), 0);
  bytes_ -= file->second.bytes;
  files_.erase(file);
}

/// Says why a file cannot be used; the lock is held. What a drive does not give now it may give
/// another time.
void DiskStates::give_up(const std::string& name, const Error& error) {
  const bool damaged = error.kind != ErrorKind::drive;
  log_warning("{}: {}; {}what it held is computed anew", (path_ / name).string(), error.message,
              damaged ? "the file is removed, " : "");
  files_[name].head.reset();
  if (damaged) drop(name);
}

void DiskStates::remove(StateKind kind, std::uint64_t key) {
  const std::scoped_lock lock(mutex_);
  drop(name_of(kind, key));
}

std::size_t DiskStates::count() const {
  const std::scoped_lock lock(mutex_);
  return files_.size();
}

std::uint64_t DiskStates::bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes_;
}

}  // namespace sluice::server
