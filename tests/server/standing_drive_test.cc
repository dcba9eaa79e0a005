// While the engine waits for a drive that gives nothing, whatever it holds then, all that watches
// the server is answered.
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "io/reader.h"
#include "server/client.h"
#include "server/served.h"

namespace sluice::server {
namespace {

using io::ReadRequest;

/// Holds requests back as long as it is shut.
class Gate {
 public:
  void shut() {
    const std::scoped_lock lock(mutex_);
    is_shut_ = true;
  }
  void open() {
    std::vector<ReadRequest> held;
    {
      const std::scoped_lock lock(mutex_);
      is_shut_ = false;
      held.swap(held_);
    }
    if (!held.empty()) reader_->submit(held);
  }
  bool hold(std::span<const ReadRequest> requests) {
    const std::scoped_lock lock(mutex_);
    if (is_shut_) held_.insert(held_.end(), requests.begin(), requests.end());
    return is_shut_;
  }
  std::size_t held() {
    const std::scoped_lock lock(mutex_);
    return held_.size();
  }
  void set_reader(io::Reader& reader) { reader_ = &reader; }

 private:
  std::mutex mutex_;
  bool is_shut_ = false;
  std::vector<ReadRequest> held_;
  io::Reader* reader_ = nullptr;
};

class GatedReader final : public io::Reader {
 public:
  GatedReader(std::unique_ptr<Reader> inner, Gate& gate) : inner_(std::move(inner)), gate_(gate) {
    gate_.set_reader(*inner_);
  }
  Result<io::FileId> open(const std::filesystem::path& path) override { return inner_->open(path); }
  std::uint64_t size(io::FileId file) const override { return inner_->size(file); }
  const std::filesystem::path& path(io::FileId file) const override { return inner_->path(file); }
  std::size_t drive_of(io::FileId file) const override { return inner_->drive_of(file); }
  std::size_t room_for(std::uint64_t length) const override { return inner_->room_for(length); }
  void submit(std::span<const ReadRequest> requests) override {
    if (!gate_.hold(requests)) inner_->submit(requests);
  }
  void promote(const io::CompletionSink& sink, std::uint64_t tag) override {
    inner_->promote(sink, tag);
  }
  void cancel(const io::CompletionSink& sink) override { inner_->cancel(sink); }
  io::ReaderStatistics statistics() const override { return inner_->statistics(); }
  std::uint64_t memory_bytes() const override { return inner_->memory_bytes(); }

 private:
  std::unique_ptr<Reader> inner_;
  Gate& gate_;
};

TEST(AStandingDrive, HoldsUpNobodyWhoWatches) {
  Gate gate;
  ServerOptions options = options_for_tests();
  options.host.engine.wrap_reader = [&](std::unique_ptr<io::Reader> inner) {
    return std::make_unique<GatedReader>(std::move(inner), gate);
  };
  const auto server = start(options);
  const int port = server->port();
  gate.shut();
  Client client(port);
  client.write(wire("POST", "/v1/completions", complete(kPrompt).dump()));
  while (gate.held() == 0 || get(port, "/v1/status").json()["phase"] != "prefill") continue;
  for (const char* path : {"/v1/experts", "/v1/experts?since=1", "/v1/status", "/metrics",
                           "/health", "/v1/models", "/"}) {
    EXPECT_EQ(get(port, path).status, 200) << path;
  }
  EXPECT_EQ(get(port, "/v1/status").json()["phase"], "prefill") << "it has not come on meanwhile";
  gate.open();
  wait_until_idle(port);
}

}  // namespace
}  // namespace sluice::server
