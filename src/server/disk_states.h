// Sequences on disk: which there are, within a number of bytes, the oldest out first.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "server/state_file.h"

namespace sluice::server {

/// A folder of state files. Files of other models lie beside those of the one at hand and count as
/// bytes like them. Thread-safe; what is written and what is read at a time, one file each.
class DiskStates {
 public:
  /// Makes the folder, removes what a crash left unfinished, and looks at the heads of all files.
  /// What is damaged is said and removed. ErrorKind::drive if the folder cannot be had.
  static Result<std::unique_ptr<DiskStates>> open(const std::filesystem::path& folder,
                                                  std::uint64_t most_bytes,
                                                  const StateLimits& limits);
  ~DiskStates();
  DiskStates(const DiskStates&) = delete;
  DiskStates& operator=(const DiskStates&) = delete;

  /// Memory of the list of files, in bytes.
  static std::uint64_t memory_bytes();

  struct Found {
    std::string name;
    std::size_t ids = 0;
  };
  /// The longest conversation of more than `longer_than` ids that `ids` begin with, computed with
  /// the adapter of this digest (0: none); one of the same length only with its logits.
  std::optional<Found> find(std::span<const std::int32_t> ids, std::uint64_t adapter,
                            std::size_t longer_than) const;
  std::optional<Found> find_answer(std::uint64_t key) const;
  bool has_conversation(std::uint64_t key) const;

  /// Reads it into the sequence (see read_state_file()). A file that is damaged is said and
  /// removed, one that the drive does not give is said and not used again.
  std::optional<StateTexts> load(const Found& found,
                                 FunctionRef<bool(std::span<const std::int32_t>)> want,
                                 model::SequenceState& sequence);

  /// Writes a file and brings it to the drive; it is there as a whole or not at all. `head.model`
  /// is filled in here. ErrorKind::drive; ErrorKind::memory if it is larger than all may be.
  Status write(StateHead head, std::span<const std::int32_t> ids, std::span<const float> logits,
               std::span<const std::byte> trail, FunctionRef<Status(ByteSink)> write_state);
  void remove(StateKind kind, std::uint64_t key);

  std::size_t count() const;
  std::uint64_t bytes() const;
  /// That were written since it was opened.
  std::uint64_t written_bytes() const { return written_bytes_; }

 private:
  struct File {
    std::uint64_t bytes = 0;
    std::uint64_t turn = 0;              // larger: used later
    std::optional<StateHead> head = {};  // none: of another model, or not to be read
  };
  DiskStates(int folder, std::filesystem::path path, std::uint64_t most_bytes,
             const StateLimits& limits);
  Status scan();
  void add_found(const std::string& name, std::uint64_t bytes);
  std::string name_of(StateKind kind, std::uint64_t key) const;
  bool has(const std::string& name) const;
  void make_room(std::uint64_t bytes, const std::string& replaced);
  void drop(const std::string& name);
  void give_up(const std::string& name, const Error& error);
  Status write_file(const std::string& name, FunctionRef<Status(ByteSink)> contents);

  const int folder_;
  const std::filesystem::path path_;
  const std::uint64_t most_bytes_;
  const StateLimits limits_;
  std::atomic<std::uint64_t> written_bytes_ = 0;

  mutable std::mutex mutex_;
  std::map<std::string, File> files_;
  std::uint64_t bytes_ = 0;
  std::uint64_t turns_ = 0;
};

}  // namespace sluice::server
