// A drive that gives nothing while its gate is shut, so that an engine stands where a test wants it
// for as long as the test takes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "io/passing_reader.h"
#include "io/reader.h"
#include "server/client.h"

namespace sluice::server {

/// Holds requests back as long as it is shut.
class Gate {
 public:
  void shut() {
    const std::scoped_lock lock(mutex_);
    is_shut_ = true;
  }
  void open() {
    const std::scoped_lock lock(mutex_);
    is_shut_ = false;
    submit(std::exchange(held_, {}));
  }
  /// Lets go what it holds. What comes then is held again, if it is shut.
  void pass() {
    const std::scoped_lock lock(mutex_);
    submit(std::exchange(held_, {}));
  }
  std::size_t held() {
    const std::scoped_lock lock(mutex_);
    return held_.size();
  }

 private:
  friend class GatedReader;
  bool hold(std::span<const io::ReadRequest> requests) {
    const std::scoped_lock lock(mutex_);
    if (is_shut_) held_.insert(held_.end(), requests.begin(), requests.end());
    return is_shut_;
  }
  /// Those of one who does not want them any more are the reader's to end.
  void pass(const io::CompletionSink& sink) {
    const std::scoped_lock lock(mutex_);
    const auto its = std::stable_partition(held_.begin(), held_.end(),
                                           [&](const auto& each) { return each.sink != &sink; });
    const std::vector<io::ReadRequest> passing(its, held_.end());
    held_.erase(its, held_.end());
    submit(passing);
  }
  void submit(const std::vector<io::ReadRequest>& requests) {
    if (!requests.empty()) reader_->submit(requests);
  }

  std::mutex mutex_;
  bool is_shut_ = false;
  std::vector<io::ReadRequest> held_;
  io::Reader* reader_ = nullptr;
};

class GatedReader final : public io::PassingReader {
 public:
  GatedReader(std::unique_ptr<io::Reader> behind, Gate& gate)
      : PassingReader(std::move(behind)), gate_(gate) {
    gate_.reader_ = &inner();
  }
  void submit(std::span<const io::ReadRequest> requests) override {
    if (!gate_.hold(requests)) inner().submit(requests);
  }
  void cancel(const io::CompletionSink& sink) override {
    gate_.pass(sink);
    inner().cancel(sink);
  }

 private:
  Gate& gate_;
};

/// For EngineOptions::wrap_reader.
inline std::function<std::unique_ptr<io::Reader>(std::unique_ptr<io::Reader>)> behind(Gate& gate) {
  return [&gate](std::unique_ptr<io::Reader> inner) {
    return std::make_unique<GatedReader>(std::move(inner), gate);
  };
}

/// Opens the gate before the server behind it ends, which waits for its engine.
class OpenInTheEnd {
 public:
  explicit OpenInTheEnd(Gate& gate) : gate_(gate) {}
  ~OpenInTheEnd() { gate_.open(); }
  OpenInTheEnd(const OpenInTheEnd&) = delete;
  OpenInTheEnd& operator=(const OpenInTheEnd&) = delete;

 private:
  Gate& gate_;
};

/// Lets the engine behind a shut gate come on read by read, until it stands where it is wanted.
/// From there it comes at most to the next read that it needs. False if it never stands there.
inline bool go_on_until(Gate& gate, const std::function<bool()>& is_there) {
  const auto deadline = std::chrono::steady_clock::now() + Client::kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    if (gate.held() == 0) {
      std::this_thread::yield();  // it has not come as far as that
      continue;
    }
    if (is_there()) return true;
    gate.pass();
  }
  return false;
}

}  // namespace sluice::server
