#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "io/reader.h"

namespace sluice::io {
namespace {

class OneCompletion final : public CompletionSink {
 public:
  explicit OneCompletion(Reader& reader) : reader_(reader) {}
  ~OneCompletion() override {
    if (!has_arrived()) reader_.cancel(*this);  // an exception: nothing may come here any more
  }
  OneCompletion(const OneCompletion&) = delete;
  OneCompletion& operator=(const OneCompletion&) = delete;

  void complete(Completion completion) noexcept override {
    // Notified under the lock: the waiter ends this object's life as soon as it can.
    const std::scoped_lock lock(mutex_);
    completion_ = std::move(completion);
    arrived_.notify_one();
  }

  Completion wait() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return completion_.has_value(); });
    return *std::move(completion_);
  }

 private:
  bool has_arrived() {
    const std::scoped_lock lock(mutex_);
    return completion_.has_value();
  }

  Reader& reader_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::optional<Completion> completion_;
};

}  // namespace

Result<std::span<const std::byte>> read_now(Reader& reader, Extent extent,
                                            std::span<std::byte> room, Purpose purpose) {
  OneCompletion sink(reader);
  const ReadRequest request{.extent = extent, .room = room, .purpose = purpose, .sink = &sink};
  reader.submit({&request, 1});
  return sink.wait().bytes;
}

}  // namespace sluice::io
