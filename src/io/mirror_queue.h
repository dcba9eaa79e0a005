// Which copy of a file a part of a request is read from, and when.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "io/reader.h"

namespace sluice::io {

/// One copy of a file: the reader's file, the drive it lies on, and its folder for messages.
struct FileCopy {
  FileId file = 0;
  std::size_t drive = 0;
  std::string folder = {};
};

/// At most so many copies of one file.
inline constexpr std::size_t kMaxCopies = 32;

/// A share of a request: a range that is read in one go from one of the file's copies.
struct MirrorPart {
  std::uint64_t owner = 0;  ///< the request, by its number
  const std::vector<FileCopy>* copies = nullptr;
  std::uint64_t offset = 0;  ///< in the file
  std::uint64_t length = 0;
  std::size_t room_offset = 0;  ///< in the request's room
  Priority priority = Priority::needed;
  std::uint32_t tried = 0;  ///< bit by copy: it failed there
  std::size_t copy = 0;     ///< where it is being read

  const FileCopy& at() const { return (*copies)[copy]; }
};

/// The parts that wait and the drives that they may go to. A part goes to the drive that is
/// expected to give it first: what is under way there and what goes there before it, divided by the
/// drive's measured speed. Only so much is under way on a drive as keeps it busy, so that the
/// choice is made late and follows the speeds as they change (heat). A drive about which nothing is
/// known, or nothing recent, gets one part for trial, and nothing counts on it meanwhile. A drive
/// that failed several times in a row, or has something to give and gave nothing for a while, is
/// left alone while another copy can be tried. What such a drive was asked for stays with it:
/// until it answers, it may write into the room at any time.
///
/// Not thread-safe. Time is the caller's, so that tests can make it.
class MirrorQueue {
 public:
  static constexpr std::uint64_t kPartBytes = std::uint64_t{1} << 20;
  /// Under way per drive at most. 16 parts: the depth from which on NVMe drives give their full
  /// speed with large reads.
  static constexpr std::uint64_t kWindowBytes = 16 * kPartBytes;
  /// Fewer bytes tell how long a drive takes to answer, and nothing of its speed.
  static constexpr std::uint64_t kTellingBytes = kPartBytes / 4;
  /// Failures in a row after which a drive is left alone.
  static constexpr int kFailures = 3;

  /// For so long a drive may be silent about what it was asked for.
  static constexpr std::chrono::milliseconds kPatience{1000};

  using Parts = std::list<MirrorPart>;

  explicit MirrorQueue(Clock::duration patience = kPatience) : patience_(patience) {}

  /// Appends parts that have a choice behind those of their priority.
  void push(Parts parts);
  /// Takes a part whose file has one copy: it is under way from here on, with whatever else its
  /// drive has queued.
  MirrorPart& begin(const MirrorPart& part, Clock::time_point now);

  /// The next part to be started now, with `copy` set; null when all drives have enough to do. It
  /// stays where it is in memory until finish() or retry(). To be asked again after each report()
  /// and, since patience ends without one, from time to time.
  MirrorPart* next(Clock::time_point now);

  enum class Outcome : std::uint8_t { arrived, failed, dropped };
  /// What became of a part under way. True when its drive is left alone from now on, for the first
  /// time.
  bool report(const MirrorPart& part, Outcome outcome, Clock::time_point now);

  /// Whether a copy is left that the part was not tried on.
  static bool can_retry(const MirrorPart& part);
  /// Puts a part under way back, before all others of its priority.
  void retry(MirrorPart& part);
  /// Forgets a part under way.
  void finish(MirrorPart& part);

  /// Moves the waiting parts of an owner to the end of those that are needed.
  void promote(std::uint64_t owner);
  /// Forgets the waiting parts of an owner. Returns how many there were.
  std::size_t drop(std::uint64_t owner);
  /// Parts of an owner that are under way.
  std::vector<const MirrorPart*> under_way(std::uint64_t owner) const;

  /// The measured speed of a drive in bytes/s; 0 when nothing is known.
  double speed(std::size_t drive) const;

 private:
  struct Drive {
    std::array<std::uint64_t, kPriorities> bytes{};  // handed over, and not back
    std::size_t parts = 0;                           // of them
    bool on_trial = false;                           // while its one part is under way
    bool was_left_alone = false;
    int failures = 0;        // in a row
    Clock::time_point last;  // the last completion, or the start after it was idle
    double seen_bytes = 0;   // both decayed with busy time: their ratio is the speed
    double seen_s = 0;
    std::uint64_t gave_bytes = 0;  // since the start, not decayed

    bool measured() const { return gave_bytes >= kTellingBytes; }
    double speed() const { return measured() ? seen_bytes / seen_s : 0; }
    bool left_alone() const { return failures >= kFailures; }
    std::uint64_t bytes_at_least(Priority priority) const;  // as urgent as this or more
    std::uint64_t bytes_below(Priority priority) const;     // less urgent
  };
  /// What a drive is good for at a moment.
  struct Outlook {
    double bytes_per_s = 0;
    double promised_bytes = 0;  // parts that wait, and will go there
    bool needs_trial = false;
    bool last_resort = false;  // only for parts that no other drive may give
  };

  Drive& drive(std::size_t index);
  std::vector<Outlook> outlooks(Clock::time_point now) const;
  double gives_in_s(const MirrorPart& part, std::size_t index, const Outlook& outlook) const;
  bool has_room(const MirrorPart& part, std::size_t index, const Outlook& outlook) const;
  std::optional<std::size_t> best_copy(const MirrorPart& part,
                                       const std::vector<Outlook>& outlooks) const;
  void hand_over(const MirrorPart& part, Clock::time_point now);

  Clock::duration patience_;
  std::array<Parts, kPriorities> waiting_;
  Parts under_way_;
  std::vector<Drive> drives_;
};

}  // namespace sluice::io
