// Who is next: one waiting task of each client in turn.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <utility>

namespace sluice::server {

/// A bounded queue. Clients take turns; of one client, what came first goes first. Not thread-safe.
template <class T>
class FairQueue {
 public:
  explicit FairQueue(std::size_t limit) : limit_(limit) {}

  std::size_t size() const { return size_; }
  std::size_t limit() const { return limit_; }
  bool is_full() const { return size_ >= limit_; }

  /// False if the queue is full.
  bool push(const std::string& client, T task) {
    if (is_full()) return false;
    ++size_;
    for (Lane& lane : lanes_) {
      if (lane.client != client) continue;
      lane.tasks.push_back(std::move(task));
      return true;
    }
    lanes_.push_back({client, {}});
    lanes_.back().tasks.push_back(std::move(task));
    return true;
  }

  /// The next task, if there is one. Its client's turn comes again after all others'.
  std::optional<T> pop() {
    if (lanes_.empty()) return std::nullopt;
    Lane& lane = lanes_.front();
    T task = std::move(lane.tasks.front());
    lane.tasks.pop_front();
    --size_;
    if (lane.tasks.empty()) {
      lanes_.pop_front();
    } else {
      lanes_.splice(lanes_.end(), lanes_, lanes_.begin());
    }
    return task;
  }

  /// Takes a task out; false if it is not there.
  bool remove(const T& task) {
    for (auto lane = lanes_.begin(); lane != lanes_.end(); ++lane) {
      const auto found = std::find(lane->tasks.begin(), lane->tasks.end(), task);
      if (found == lane->tasks.end()) continue;
      lane->tasks.erase(found);
      --size_;
      if (lane->tasks.empty()) lanes_.erase(lane);
      return true;
    }
    return false;
  }

  /// How many tasks go before it, as things are; none if it is not there.
  std::optional<std::size_t> position(const T& task) const {
    std::size_t turn = 0;
    for (const Lane& lane : lanes_) {
      const auto found = std::find(lane.tasks.begin(), lane.tasks.end(), task);
      if (found != lane.tasks.end()) {
        return before(turn, static_cast<std::size_t>(found - lane.tasks.begin()));
      }
      ++turn;
    }
    return std::nullopt;
  }

 private:
  struct Lane {
    std::string client;
    std::deque<T> tasks;
  };

  /// Tasks before number `depth` of the client whose turn is number `turn`.
  std::size_t before(std::size_t turn, std::size_t depth) const {
    std::size_t sum = depth;
    std::size_t other = 0;
    for (const Lane& lane : lanes_) {
      if (other != turn) sum += std::min(lane.tasks.size(), depth + (other < turn ? 1 : 0));
      ++other;
    }
    return sum;
  }

  const std::size_t limit_;
  std::size_t size_ = 0;
  std::list<Lane> lanes_;  // in the order of turns; none of them empty
};

}  // namespace sluice::server
