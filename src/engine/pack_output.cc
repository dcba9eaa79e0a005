#include "engine/pack_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "base/size.h"
#include "engine/synth_output.h"
#include "io/file.h"
#include "store/pack_index.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> failed(const fs::path& path, std::string_view what, int code) {
  std::string_view advice;
  if (code == ENOSPC || code == EDQUOT) {
    advice = "; make room and start the same command again, it goes on from here";
  }
  if (code == EFBIG) advice = "; the file system does not take files of this size, use another";
  return fail(ErrorKind::drive, "{}: {}: {}{}", path.string(), what, io::error_text(code), advice);
}

/// A file that is open for writing.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

Result<Descriptor> open_for_writing(const fs::path& path, int flags) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666));
  if (file.number() < 0) {
    const int error = errno;
    return fail(io::kind_of_refused_place(error), "{}: cannot be made: {}", path.string(),
                io::error_text(error));
  }
  return file;
}

Status sync_folder(const fs::path& folder) {
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot sync a folder; there is nothing better to do then.
  if (opened.number() >= 0 && ::fsync(opened.number()) != 0 && errno != EINVAL) {
    return failed(folder, "cannot be brought to the drive", errno);
  }
  return {};
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

class DiskOutput final : public PackOutput {
 public:
  DiskOutput(fs::path folder, std::vector<PackPart> parts, std::vector<Descriptor> files,
             Descriptor journal)
      : folder_(std::move(folder)),
        parts_(std::move(parts)),
        files_(std::move(files)),
        journal_(std::move(journal)) {}

  Status write(std::size_t part, std::uint64_t offset, std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written =
          ::pwrite(files_[part].number(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) {
        return failed(parts_[part].path, "cannot be written", written < 0 ? errno : ENOSPC);
      }
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      offset += static_cast<std::uint64_t>(written);
    }
    return {};
  }

  Status sync() override {
    for (std::size_t part = 0; part < files_.size(); ++part) {
      if (::fdatasync(files_[part].number()) != 0) {
        return failed(parts_[part].path, "cannot be brought to the drive", errno);
      }
#if defined(POSIX_FADV_DONTNEED)
      // What is read back must come from the drive, and the cache has better things to keep.
      ::posix_fadvise(files_[part].number(), 0, 0, POSIX_FADV_DONTNEED);
#endif
    }
    return {};
  }

  Status append(std::span<const std::byte> record) override {
    const fs::path path = folder_ / store::kPackJournalName;
    while (!record.empty()) {
      const ssize_t written = ::write(journal_.number(), record.data(), record.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return failed(path, "cannot be written", written < 0 ? errno : ENOSPC);
      record = record.subspan(static_cast<std::size_t>(written));
    }
    if (::fdatasync(journal_.number()) != 0) {
      return failed(path, "cannot be brought to the drive", errno);
    }
    return {};
  }

  Status publish(std::span<const std::byte> index) override {
    SLUICE_TRY(write_for_good(folder_ / store::kPackIndexName, index));
    const fs::path journal = folder_ / store::kPackJournalName;
    if (::unlink(journal.c_str()) != 0) return failed(journal, "cannot be removed", errno);
    return sync_folder(folder_);
  }

 private:
  fs::path folder_;
  std::vector<PackPart> parts_;
  std::vector<Descriptor> files_;
  Descriptor journal_;
};

struct Room {
  std::uint64_t device = 0;
  std::uint64_t available = 0;
};

Result<Room> room_in(const fs::path& folder) {
  struct stat facts {};
  struct statvfs space {};
  if (::stat(folder.c_str(), &facts) != 0 || ::statvfs(folder.c_str(), &space) != 0) {
    return failed(folder, "cannot be looked at", errno);
  }
  return Room{facts.st_dev, std::uint64_t{space.f_bavail} * space.f_frsize};
}

}  // namespace

Result<std::unique_ptr<PackOutput>> open_pack_output(const fs::path& folder,
                                                     const std::vector<PackPart>& parts,
                                                     std::uint64_t journal_bytes) {
  std::vector<Descriptor> files;
  for (const PackPart& part : parts) {
    SLUICE_ASSIGN(Descriptor file, open_for_writing(part.path, O_CREAT));
    const auto size = static_cast<off_t>(part.bytes);
#if defined(__linux__)
    // Room taken at once is contiguous, and cannot run out in the middle of the night.
    if (::fallocate(file.number(), 0, 0, size) != 0 && errno != EOPNOTSUPP && errno != ENOSYS) {
      return failed(part.path, fmt::format("cannot be made {} bytes long", size), errno);
    }
#endif
    if (::ftruncate(file.number(), size) != 0) {
      return failed(part.path, fmt::format("cannot be made {} bytes long", size), errno);
    }
    SLUICE_TRY(sync_folder(folder_of(part.path)));
    files.push_back(std::move(file));
  }
  const fs::path path = folder / store::kPackJournalName;
  SLUICE_ASSIGN(Descriptor journal, open_for_writing(path, O_APPEND));
  if (::ftruncate(journal.number(), static_cast<off_t>(journal_bytes)) != 0) {
    return failed(path, "cannot be cut to what is sound", errno);
  }
  return std::make_unique<DiskOutput>(folder, parts, std::move(files), std::move(journal));
}

Status write_for_good(const fs::path& path, std::span<const std::byte> bytes) {
  SLUICE_ASSIGN(OutputFile file, OutputFile::create(path));
  SLUICE_TRY(file.write(bytes));
  SLUICE_TRY(file.commit());
  return sync_folder(folder_of(path));
}

Status check_room(const std::vector<PackPart>& parts, const fs::path& folder,
                  std::uint64_t more_in_folder) {
  struct Need {
    fs::path folder;
    std::uint64_t bytes = 0;
    std::uint64_t available = 0;
  };
  std::map<std::uint64_t, Need> needs;  // by device
  const auto add = [&](const fs::path& where, std::uint64_t bytes) -> Status {
    SLUICE_ASSIGN(const Room room, room_in(where));
    Need& need = needs[room.device];
    if (need.folder.empty()) need.folder = where;
    need.bytes += bytes;
    need.available = room.available;
    return {};
  };
  for (const PackPart& part : parts) {
    struct stat facts {};
    std::uint64_t taken = 0;
    if (::stat(part.path.c_str(), &facts) == 0) {
      taken = static_cast<std::uint64_t>(facts.st_blocks) * 512;
    }
    SLUICE_TRY(add(folder_of(part.path), part.bytes - std::min(taken, part.bytes)));
  }
  SLUICE_TRY(add(folder, more_in_folder));
  for (const auto& [device, need] : needs) {
    if (need.bytes <= need.available) continue;
    return fail(ErrorKind::drive,
                "{}: the pack needs {} more on this drive, {} are free; make room, or give more "
                "folders on other drives with --out",
                need.folder.string(), format_size(need.bytes), format_size(need.available));
  }
  return {};
}

}  // namespace sluice::engine
