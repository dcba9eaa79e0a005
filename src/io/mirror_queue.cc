#include "io/mirror_queue.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace sluice::io {
namespace {

// What a drive is taken for before anything is known.
constexpr double kAssumedBytesPerS = 1e9;
// Speeds are those of about the last quarter of a second in which the drive was busy.
constexpr double kMemoryS = 0.25;
// A drive that had nothing to do for longer may have become faster: it cooled down, or what held it
// up is over. Its speed is taken to double with every kDoublingS of rest, up to the fastest
// drive's.
constexpr double kFreshS = 1;
constexpr double kDoublingS = 5;
// Parts that are looked at in search of one that can start.
constexpr int kLookAhead = 256;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

std::size_t index_of(Priority priority) { return static_cast<std::size_t>(priority); }

}  // namespace

std::uint64_t MirrorQueue::Drive::bytes_at_least(Priority priority) const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i <= index_of(priority); ++i) sum += bytes[i];
  return sum;
}

std::uint64_t MirrorQueue::Drive::bytes_below(Priority priority) const {
  std::uint64_t sum = 0;
  for (std::size_t i = index_of(priority) + 1; i < kPriorities; ++i) sum += bytes[i];
  return sum;
}

MirrorQueue::Drive& MirrorQueue::drive(std::size_t index) {
  if (drives_.size() <= index) drives_.resize(index + 1);
  return drives_[index];
}

void MirrorQueue::push(Parts parts) {
  while (!parts.empty()) {
    for (const FileCopy& copy : *parts.front().copies) drive(copy.drive);
    Parts& queue = waiting_[index_of(parts.front().priority)];
    queue.splice(queue.end(), parts, parts.begin());
  }
}

void MirrorQueue::hand_over(const MirrorPart& part, Clock::time_point now) {
  Drive& to = drive(part.at().drive);
  if (to.parts++ == 0) to.last = now;
  to.bytes[index_of(part.priority)] += part.length;
}

MirrorPart& MirrorQueue::begin(const MirrorPart& part, Clock::time_point now) {
  MirrorPart& begun = under_way_.emplace_back(part);
  hand_over(begun, now);
  return begun;
}

std::vector<MirrorQueue::Outlook> MirrorQueue::outlooks(Clock::time_point now) const {
  double fastest = 0;
  for (const Drive& each : drives_) fastest = std::max(fastest, each.speed());
  if (fastest == 0) fastest = kAssumedBytesPerS;
  std::vector<Outlook> all(drives_.size());
  for (std::size_t i = 0; i < drives_.size(); ++i) {
    const Drive& each = drives_[i];
    const double rest_s = each.parts == 0 ? seconds(now - each.last) : 0;
    if (!each.measured()) {
      all[i] = {.bytes_per_s = fastest, .needs_trial = true};
    } else if (rest_s > kFreshS) {
      const double hoped = each.speed() * std::exp2(std::min(rest_s / kDoublingS, 60.0));
      all[i] = {.bytes_per_s = std::min(hoped, fastest), .needs_trial = true};
    } else {
      all[i] = {.bytes_per_s = each.speed()};
    }
    const bool stands_still = each.parts > 0 && now - each.last > patience_;
    all[i].last_resort = each.left_alone() || stands_still;
  }
  return all;
}

double MirrorQueue::gives_in_s(const MirrorPart& part, std::size_t index,
                               const Outlook& outlook) const {
  // Of what is less urgent some is being read already; the rest will let this part pass.
  const Drive& each = drives_[index];
  const std::uint64_t before =
      each.bytes_at_least(part.priority) + std::min(each.bytes_below(part.priority), kWindowBytes);
  return (static_cast<double>(before + part.length) + outlook.promised_bytes) / outlook.bytes_per_s;
}

bool MirrorQueue::has_room(const MirrorPart& part, std::size_t index,
                           const Outlook& outlook) const {
  const Drive& each = drives_[index];
  if (outlook.needs_trial) return each.parts == 0;
  const std::uint64_t before = each.bytes_at_least(part.priority);
  return before == 0 || before + part.length <= kWindowBytes;
}

std::optional<std::size_t> MirrorQueue::best_copy(const MirrorPart& part,
                                                  const std::vector<Outlook>& outlooks) const {
  const std::vector<FileCopy>& copies = *part.copies;
  for (const bool last_resort : {false, true}) {
    std::optional<std::size_t> best;
    double best_s = 0;
    bool any = false;
    for (std::size_t copy = 0; copy < copies.size(); ++copy) {
      const std::size_t index = copies[copy].drive;
      if ((part.tried >> copy & 1) != 0 || outlooks[index].last_resort != last_resort) continue;
      any = true;
      if (drives_[index].on_trial) continue;
      const double expected_s = gives_in_s(part, index, outlooks[index]);
      if (best && expected_s >= best_s) continue;
      best = copy;
      best_s = expected_s;
    }
    if (any) return best;
  }
  return std::nullopt;
}

MirrorPart* MirrorQueue::next(Clock::time_point now) {
  std::vector<Outlook> all = outlooks(now);
  int looked_at = 0;
  for (Parts& queue : waiting_) {
    for (auto part = queue.begin(); part != queue.end(); ++part) {
      if (++looked_at > kLookAhead) return nullptr;
      const auto copy = best_copy(*part, all);
      if (!copy) continue;
      const std::size_t index = (*part->copies)[*copy].drive;
      if (!has_room(*part, index, all[index])) {
        all[index].promised_bytes += static_cast<double>(part->length);
        continue;
      }
      part->copy = *copy;
      under_way_.splice(under_way_.end(), queue, part);
      drives_[index].on_trial = all[index].needs_trial;
      hand_over(*part, now);
      return &*part;
    }
  }
  return nullptr;
}

bool MirrorQueue::report(const MirrorPart& part, Outcome outcome, Clock::time_point now) {
  Drive& from = drives_[part.at().drive];
  from.bytes[index_of(part.priority)] -= part.length;
  --from.parts;
  from.on_trial = false;
  const double took_s = seconds(now - std::exchange(from.last, now));
  if (outcome == Outcome::failed) {
    return ++from.failures == kFailures && !std::exchange(from.was_left_alone, true);
  }
  if (outcome == Outcome::dropped) return false;
  from.failures = 0;
  from.gave_bytes += part.length;
  const double kept = std::exp(-took_s / kMemoryS);
  from.seen_bytes = from.seen_bytes * kept + static_cast<double>(part.length);
  from.seen_s = from.seen_s * kept + std::max(took_s, 1e-9);
  return false;
}

bool MirrorQueue::can_retry(const MirrorPart& part) {
  return static_cast<std::size_t>(std::popcount(part.tried)) < part.copies->size();
}

void MirrorQueue::retry(MirrorPart& part) {
  const auto at = std::find_if(under_way_.begin(), under_way_.end(),
                               [&](const MirrorPart& each) { return &each == &part; });
  SLUICE_CHECK(at != under_way_.end());
  Parts& queue = waiting_[index_of(part.priority)];
  queue.splice(queue.begin(), under_way_, at);
}

void MirrorQueue::finish(MirrorPart& part) {
  const auto at = std::find_if(under_way_.begin(), under_way_.end(),
                               [&](const MirrorPart& each) { return &each == &part; });
  SLUICE_CHECK(at != under_way_.end());
  under_way_.erase(at);
}

void MirrorQueue::promote(std::uint64_t owner) {
  Parts& needed = waiting_[index_of(Priority::needed)];
  for (Parts& queue : waiting_) {
    if (&queue == &needed) continue;
    for (auto part = queue.begin(); part != queue.end();) {
      const auto here = part++;
      if (here->owner != owner) continue;
      here->priority = Priority::needed;
      needed.splice(needed.end(), queue, here);
    }
  }
}

std::size_t MirrorQueue::drop(std::uint64_t owner) {
  std::size_t dropped = 0;
  for (Parts& queue : waiting_) {
    dropped += std::erase_if(queue, [&](const MirrorPart& part) { return part.owner == owner; });
  }
  return dropped;
}

std::vector<const MirrorPart*> MirrorQueue::under_way(std::uint64_t owner) const {
  std::vector<const MirrorPart*> parts;
  for (const MirrorPart& part : under_way_) {
    if (part.owner == owner) parts.push_back(&part);
  }
  return parts;
}

double MirrorQueue::speed(std::size_t drive) const {
  return drive < drives_.size() ? drives_[drive].speed() : 0;
}

}  // namespace sluice::io
