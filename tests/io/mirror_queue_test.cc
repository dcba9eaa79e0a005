// Which copy a part is read from: decided in made-up time, so that every figure here is exact.
#include "io/mirror_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

namespace sluice::io {
namespace {

constexpr double kMB = 1e6;
constexpr double kMillisecond = 1e-3;

/// A number of drives that give their bytes one after the other, at the speeds that they have.
class Drives {
 public:
  explicit Drives(std::vector<double> bytes_per_s) : speeds_(std::move(bytes_per_s)) {
    for (std::size_t i = 0; i < speeds_.size(); ++i) {
      mirror_.push_back({.file = static_cast<FileId>(i), .drive = i});
    }
    free_at_.resize(speeds_.size());
    bytes_.resize(speeds_.size());
  }

  void set_speed(std::size_t drive, double bytes_per_s) { speeds_[drive] = bytes_per_s; }
  const std::vector<FileCopy>& mirror() const { return mirror_; }
  MirrorQueue& queue() { return queue_; }
  double now() const { return now_; }
  double bytes(std::size_t drive) const { return bytes_[drive]; }
  void rest(double seconds) { now_ += seconds; }

  void push(std::size_t parts, Priority priority = Priority::needed, std::uint64_t owner = 0,
            std::uint64_t length = MirrorQueue::kPartBytes) {
    MirrorQueue::Parts all;
    for (std::size_t i = 0; i < parts; ++i) {
      all.push_back({.owner = owner, .copies = &mirror_, .length = length, .priority = priority});
    }
    queue_.push(std::move(all));
  }

  void start() {
    while (MirrorPart* part = queue_.next(at(now_))) {
      const std::size_t drive = part->at().drive;
      const double begin = std::max(now_, free_at_[drive]);
      free_at_[drive] = begin + static_cast<double>(part->length) / speeds_[drive];
      bytes_[drive] += static_cast<double>(part->length);
      arrivals_.emplace(free_at_[drive], part);
    }
  }

  /// The next part arrives. Null when nothing is under way.
  MirrorPart* step(MirrorQueue::Outcome outcome = MirrorQueue::Outcome::arrived) {
    start();
    if (arrivals_.empty()) return nullptr;
    MirrorPart* part = arrivals_.begin()->second;
    now_ = std::max(now_, arrivals_.begin()->first);
    arrivals_.erase(arrivals_.begin());
    queue_.report(*part, outcome, at(now_));
    return part;
  }

  /// Reads all that waits; the seconds it took.
  double read_all() {
    const double begin = now_;
    while (MirrorPart* part = step()) queue_.finish(*part);
    return now_ - begin;
  }

  /// Like a decode: so many layers, each of which wants its parts before the next begins.
  double read_layers(int layers, std::size_t parts) {
    const double begin = now_;
    for (int layer = 0; layer < layers; ++layer) {
      push(parts);
      read_all();
    }
    return now_ - begin;
  }

  static Clock::time_point at(double seconds) {
    return Clock::time_point() + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double>(1000 + seconds));
  }

 private:
  std::vector<double> speeds_;
  std::vector<FileCopy> mirror_;
  MirrorQueue queue_;
  double now_ = 0;
  std::vector<double> free_at_;
  std::vector<double> bytes_;
  std::multimap<double, MirrorPart*> arrivals_;
};

double decode_time(std::vector<double> speeds) {
  return Drives(std::move(speeds)).read_layers(20, 16 * 17);  // K3: 16 experts of 17 parts
}

TEST(MirrorQueue, two_equal_drives_are_1_9_times_and_four_3_7_times_as_fast_as_one) {
  const double one = decode_time({400 * kMB});
  EXPECT_GT(one / decode_time({400 * kMB, 400 * kMB}), 1.95);
  EXPECT_GT(one / decode_time({400 * kMB, 400 * kMB, 400 * kMB, 400 * kMB}), 3.8);
}

TEST(MirrorQueue, unequal_drives_add_up) {
  const double together = decode_time({800 * kMB, 300 * kMB, 100 * kMB});
  EXPECT_GT(decode_time({1200 * kMB}) / together, 0.95);
}

TEST(MirrorQueue, a_slow_drive_never_makes_it_slower) {
  for (const double factor : {2.0, 5.0, 10.0, 30.0, 100.0, 1000.0}) {
    const double without = decode_time({3000 * kMB, 3000 * kMB, 3000 * kMB});
    const double with = decode_time({3000 * kMB, 3000 * kMB, 3000 * kMB, 3000 * kMB / factor});
    // What is not known before is how slow it is: that costs one part, once.
    const double trial = static_cast<double>(MirrorQueue::kPartBytes) / (3000 * kMB / factor);
    EXPECT_LE(with, without + trial) << factor;
    Drives known({3000 * kMB, 3000 * kMB / factor});
    known.read_layers(2, 272);
    Drives alone({3000 * kMB});
    alone.read_layers(2, 272);
    EXPECT_LE(known.read_layers(20, 272), alone.read_layers(20, 272) * 1.001) << factor;
  }
}

TEST(MirrorQueue, each_drive_that_nothing_is_known_about_gets_one_part_for_trial) {
  Drives drives({1000 * kMB, 1000 * kMB, 1 * kMB});
  drives.push(40);
  drives.start();
  for (const std::size_t drive : {0u, 1u, 2u}) {
    EXPECT_EQ(drives.bytes(drive), static_cast<double>(MirrorQueue::kPartBytes)) << drive;
  }
}

TEST(MirrorQueue, small_parts_tell_nothing_of_a_drives_speed) {
  for (const std::uint64_t length : {0u, 4096u}) {
    Drives drives({1 * kMB, 1000 * kMB});
    drives.push(1, Priority::needed, 0, length);  // slow, as first answers are
    drives.read_all();
    drives.set_speed(0, 1000 * kMB);
    drives.push(64);
    drives.read_all();
    EXPECT_GT(drives.bytes(0), drives.bytes(1) / 2) << length;
  }
}

TEST(MirrorQueue, few_parts_go_to_the_fast_drive_alone) {
  Drives drives({1000 * kMB, 100 * kMB});
  drives.read_layers(1, 64);
  const double before = drives.bytes(1);
  EXPECT_NEAR(drives.read_layers(1, 4), 4.2 * kMillisecond, 0.1 * kMillisecond);
  EXPECT_EQ(drives.bytes(1), before);
}

TEST(MirrorQueue, a_drive_that_slows_down_by_heat_gets_less_and_more_when_it_has_cooled) {
  Drives drives({1000 * kMB, 1000 * kMB});
  const auto share_of_second = [&] {
    const double first = drives.bytes(0);
    const double second = drives.bytes(1);
    drives.read_layers(4, 272);
    const double more = drives.bytes(1) - second;
    return more / (more + drives.bytes(0) - first);
  };
  EXPECT_NEAR(share_of_second(), 0.5, 0.02);
  drives.set_speed(1, 250 * kMB);
  share_of_second();
  EXPECT_NEAR(share_of_second(), 0.2, 0.03);
  drives.set_speed(1, 1000 * kMB);
  share_of_second();
  EXPECT_NEAR(share_of_second(), 0.5, 0.03);
}

TEST(MirrorQueue, a_drive_that_stood_still_once_is_tried_again_after_a_rest) {
  Drives drives({1000 * kMB, 1000 * kMB});
  drives.read_layers(2, 64);
  drives.set_speed(1, 0.2 * kMB);  // five seconds for a part
  drives.read_layers(1, 64);
  drives.set_speed(1, 1000 * kMB);
  drives.read_layers(1, 64);
  for (int i = 0; i < 60; ++i) {
    drives.rest(2);
    drives.read_layers(1, 64);
  }
  const double before = drives.bytes(1);
  drives.read_layers(1, 64);
  EXPECT_GT(drives.bytes(1), before);
}

TEST(MirrorQueue, a_drive_that_stands_still_gets_nothing_that_another_copy_may_give) {
  Drives drives({10 * kMB, 10000 * kMB});
  drives.read_layers(2, 64);
  drives.set_speed(1, 1);  // years for all of it
  const double before = drives.bytes(1);
  drives.push(40);
  drives.start();
  EXPECT_EQ(drives.queue().under_way(0).size(), 16u) << "the others would wait for it";
  EXPECT_EQ(drives.bytes(1) - before, 16.0 * MirrorQueue::kPartBytes);
  drives.rest(1.5);
  for (int i = 0; i < 24; ++i) {
    MirrorPart* part = drives.step();
    ASSERT_NE(part, nullptr);
    ASSERT_EQ(part->copy, 0u);
    drives.queue().finish(*part);
  }
  EXPECT_LT(drives.now(), 10);
  EXPECT_EQ(drives.queue().under_way(0).size(), 16u) << "what it was asked for stays there";
}

TEST(MirrorQueue, a_drive_that_stands_still_is_asked_when_no_other_copy_is_left) {
  Drives drives({1000 * kMB, 1000 * kMB});
  drives.read_layers(2, 64);
  const MirrorPart part{.copies = &drives.mirror(), .length = 1, .copy = 1};
  drives.queue().begin(part, Drives::at(drives.now()));
  drives.rest(1.5);
  MirrorQueue::Parts parts(1, part);
  parts.front().tried = 1;
  drives.queue().push(std::move(parts));
  const MirrorPart* next = drives.queue().next(Drives::at(drives.now()));
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->copy, 1u);
}

TEST(MirrorQueue, no_drive_is_given_more_than_keeps_it_busy) {
  Drives drives({1000 * kMB, 1000 * kMB});
  drives.read_layers(1, 64);
  drives.push(200);
  drives.start();
  EXPECT_EQ(drives.queue().under_way(0).size(), 2 * 16u);
}

TEST(MirrorQueue, needed_parts_go_before_read_ahead_and_guesses) {
  Drives drives({1000 * kMB});
  drives.push(1, Priority::guess, 1);
  drives.push(1, Priority::read_ahead, 2);
  drives.push(1, Priority::needed, 3);
  drives.push(1, Priority::guess, 4);
  drives.queue().promote(4);
  std::vector<std::uint64_t> order;
  while (MirrorPart* part = drives.step()) {
    order.push_back(part->owner);
    drives.queue().finish(*part);
  }
  EXPECT_EQ(order, (std::vector<std::uint64_t>{3, 4, 2, 1}));
}

TEST(MirrorQueue, needed_parts_do_not_wait_behind_a_backlog_of_guesses) {
  Drives drives({1000 * kMB});
  drives.read_layers(1, 64);
  for (int i = 0; i < 100; ++i) {
    const MirrorPart guess{.owner = 1,
                           .copies = &drives.mirror(),
                           .length = MirrorQueue::kPartBytes,
                           .priority = Priority::guess};
    drives.queue().begin(guess, Drives::at(drives.now()));
  }
  drives.push(16, Priority::needed, 2);
  drives.start();
  EXPECT_EQ(drives.queue().under_way(2).size(), 16u);
}

TEST(MirrorQueue, a_part_that_failed_goes_to_the_other_copies_and_then_nowhere) {
  Drives drives({1000 * kMB, 1000 * kMB, 1000 * kMB});
  drives.push(1);
  std::vector<std::size_t> tried;
  while (MirrorPart* part = drives.step(MirrorQueue::Outcome::failed)) {
    tried.push_back(part->copy);
    part->tried |= std::uint32_t{1} << part->copy;
    if (MirrorQueue::can_retry(*part)) {
      drives.queue().retry(*part);
    } else {
      drives.queue().finish(*part);
    }
  }
  std::sort(tried.begin(), tried.end());
  EXPECT_EQ(tried, (std::vector<std::size_t>{0, 1, 2}));
}

TEST(MirrorQueue, a_drive_that_fails_in_a_row_is_left_alone_and_said_so_once) {
  Drives drives({1000 * kMB, 1000 * kMB});
  drives.read_layers(1, 64);
  int said = 0;
  MirrorPart lost{.copies = &drives.mirror(), .length = 1, .copy = 1};
  for (int i = 0; i < 10; ++i) {
    MirrorPart& begun = drives.queue().begin(lost, Drives::at(drives.now()));
    if (drives.queue().report(begun, MirrorQueue::Outcome::failed, Drives::at(drives.now()))) {
      ++said;
    }
    drives.queue().finish(begun);
  }
  EXPECT_EQ(said, 1);
  const double before = drives.bytes(1);
  drives.push(100);
  drives.read_all();
  EXPECT_EQ(drives.bytes(1), before);
}

TEST(MirrorQueue, dropped_parts_do_not_go_out) {
  Drives drives({1000 * kMB});
  drives.read_layers(1, 64);
  drives.push(40, Priority::needed, 7);
  drives.push(1, Priority::needed, 8);
  drives.start();
  EXPECT_EQ(drives.queue().drop(7), 40u - 16u);
  int last = 0;
  while (MirrorPart* part = drives.step()) {
    last = static_cast<int>(part->owner);
    drives.queue().finish(*part);
  }
  EXPECT_EQ(last, 8);
}

}  // namespace
}  // namespace sluice::io
