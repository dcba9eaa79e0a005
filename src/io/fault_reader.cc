#include "io/fault_reader.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <unordered_set>
#include <utility>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "io/read_fully.h"

namespace sluice::io {
namespace {

class FaultReader final : public Reader {
 public:
  FaultReader(std::unique_ptr<Reader> inner, ReadFaults faults)
      : inner_(std::move(inner)),
        faults_(std::move(faults)),
        random_(faults_.seed),
        seen_(faults_.faults.size()),
        thread_([this] { serve(); }) {}

  ~FaultReader() override {
    inner_.reset();  // settles every ticket that it has
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  Result<FileId> open(const std::filesystem::path& path) override { return inner_->open(path); }
  std::uint64_t size(FileId file) const override { return inner_->size(file); }
  const std::filesystem::path& path(FileId file) const override { return inner_->path(file); }
  std::size_t drive_of(FileId file) const override {
    if (faults_.drives.empty()) return inner_->drive_of(file);
    const std::string path = inner_->path(file).string();
    std::size_t drive = 0;
    while (drive < faults_.drives.size() && path.find(faults_.drives[drive]) == std::string::npos) {
      ++drive;
    }
    return drive;
  }
  std::size_t room_for(std::uint64_t length) const override { return inner_->room_for(length); }
  ReaderStatistics statistics() const override { return inner_->statistics(); }
  std::uint64_t memory_bytes() const override { return inner_->memory_bytes() + kThreadStackBytes; }

  void submit(std::span<const ReadRequest> requests) override {
    std::vector<ReadRequest> passed_on;
    for (const ReadRequest& request : requests) {
      auto ticket = std::make_shared<Ticket>(*this, request);
      std::optional<Error> error = fault_for(request);
      {
        const std::scoped_lock lock(mutex_);
        tickets_.insert(ticket);
      }
      if (error) {
        arrived(*ticket, {request.tag, tl::unexpected(*std::move(error))});
      } else {
        ReadRequest inner_request = request;
        inner_request.sink = ticket.get();
        passed_on.push_back(inner_request);
      }
    }
    inner_->submit(passed_on);
  }

  void promote(const CompletionSink& sink, std::uint64_t tag) override {
    for (const auto& ticket : tickets_of(sink)) inner_->promote(*ticket, tag);
  }

  void cancel(const CompletionSink& sink) override {
    for (const auto& ticket : tickets_of(sink)) inner_->cancel(*ticket);
    std::unique_lock lock(mutex_);
    gone_.wait(lock, [&] {
      return std::none_of(tickets_.begin(), tickets_.end(),
                          [&](const auto& ticket) { return ticket->asked.sink == &sink; });
    });
  }

 private:
  /// Stands in as the sink of one request.
  struct Ticket final : CompletionSink {
    Ticket(FaultReader& reader, const ReadRequest& request) : owner(reader), asked(request) {}
    void complete(Completion completion) noexcept override {
      owner.arrived(*this, std::move(completion));  // may end this ticket's life
    }

    FaultReader& owner;
    const ReadRequest asked;
  };
  using Tickets = std::unordered_set<std::shared_ptr<Ticket>>;

  struct Late {
    Ticket* ticket;
    Completion completion;
  };

  std::optional<Error> fault_for(const ReadRequest& request) {
    const std::filesystem::path& path = inner_->path(request.extent.file);
    const Extent& extent = request.extent;
    const std::scoped_lock lock(mutex_);
    for (std::size_t i = 0; i < faults_.faults.size(); ++i) {
      const ReadFault& fault = faults_.faults[i];
      if (!path.native().ends_with(fault.path_ending)) continue;
      if (path.native().find(fault.path_part) == std::string::npos) continue;
      const std::uint64_t call = seen_[i]++;
      if (call < fault.from || (call - fault.from) % fault.every != 0) continue;
      if ((call - fault.from) / fault.every >= fault.count) continue;
      if (fault.kind == ReadFault::Kind::error) {
        return read_error(path, extent.offset, extent.length, {.got = 0, .error = EIO});
      }
      if (extent.offset + extent.length > fault.size) {
        const std::uint64_t got = fault.size - std::min(fault.size, extent.offset);
        return read_error(path, extent.offset, extent.length, {.got = got, .error = 0});
      }
    }
    return std::nullopt;
  }

  std::vector<std::shared_ptr<Ticket>> tickets_of(const CompletionSink& sink) const {
    const std::scoped_lock lock(mutex_);
    std::vector<std::shared_ptr<Ticket>> found;
    for (const auto& ticket : tickets_) {
      if (ticket->asked.sink == &sink) found.push_back(ticket);
    }
    return found;
  }

  void arrived(Ticket& ticket, Completion completion) {
    const std::scoped_lock lock(mutex_);
    std::uniform_int_distribution<std::int64_t> delay(0, faults_.max_delay.count());
    late_.emplace(Clock::now() + std::chrono::microseconds(delay(random_)),
                  Late{&ticket, std::move(completion)});
    wake_.notify_one();
  }

  /// Hands out what is due, until there is nothing more to come.
  void serve() {
    std::unique_lock lock(mutex_);
    while (!stop_ || !late_.empty()) {
      if (late_.empty()) {
        wake_.wait(lock);
        continue;
      }
      const Clock::time_point due = late_.begin()->first;
      if (!stop_ && Clock::now() < due) {
        wake_.wait_until(lock, due);
        continue;
      }
      Late late = std::move(late_.extract(late_.begin()).mapped());
      lock.unlock();
      late.ticket->asked.sink->complete(std::move(late.completion));
      lock.lock();
      std::erase_if(tickets_, [&](const auto& ticket) { return ticket.get() == late.ticket; });
      gone_.notify_all();
    }
  }

  std::unique_ptr<Reader> inner_;
  const ReadFaults faults_;
  mutable std::mutex mutex_;  // guards what follows; held while no other lock is taken
  std::condition_variable wake_;
  std::condition_variable gone_;
  std::mt19937_64 random_;
  std::vector<std::uint64_t> seen_;  // by fault
  Tickets tickets_;                  // all that are outstanding
  std::multimap<Clock::time_point, Late> late_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<Reader> make_fault_reader(std::unique_ptr<Reader> inner, ReadFaults faults) {
  return std::make_unique<FaultReader>(std::move(inner), std::move(faults));
}

}  // namespace sluice::io
