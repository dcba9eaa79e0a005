#include "engine/traced_reader.h"

#include <sys/stat.h>

#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace sluice::engine {
namespace {

std::string_view name_of(io::Purpose purpose) {
  switch (purpose) {
    case io::Purpose::trunk:
      return "trunk";
    case io::Purpose::expert:
      return "expert";
    case io::Purpose::other:
      return "other";
  }
  return "?";
}

std::string_view name_of(io::Priority priority) {
  switch (priority) {
    case io::Priority::needed:
      return "needed";
    case io::Priority::read_ahead:
      return "read ahead";
    case io::Priority::guess:
      return "guess";
  }
  return "?";
}

class Tracer final : public TracedReader {
 public:
  Tracer(std::unique_ptr<io::Reader> inner, Trace& trace)
      : trace_(trace), inner_(std::move(inner)) {}

  Result<io::FileId> open(const std::filesystem::path& path) override {
    SLUICE_ASSIGN(const io::FileId file, inner_->open(path));
    const std::scoped_lock lock(mutex_);
    if (file >= drive_of_.size()) drive_of_.resize(file + 1, 0);
    drive_of_[file] = number_of(path);
    return file;
  }
  std::uint64_t size(io::FileId file) const override { return inner_->size(file); }
  const std::filesystem::path& path(io::FileId file) const override { return inner_->path(file); }
  std::size_t drive_of(io::FileId file) const override { return inner_->drive_of(file); }
  std::size_t room_for(std::uint64_t length) const override { return inner_->room_for(length); }
  io::ReaderStatistics statistics() const override { return inner_->statistics(); }
  std::uint64_t memory_bytes() const override { return inner_->memory_bytes(); }
  void name_blocks(BlockNamer namer) override { namer_ = std::move(namer); }

  void submit(std::span<const io::ReadRequest> requests) override {
    std::vector<io::ReadRequest> passed_on(requests.begin(), requests.end());
    const Trace::Time now = Clock::now();
    {
      const std::scoped_lock lock(mutex_);
      for (io::ReadRequest& request : passed_on) {
        Stand& stand = stand_for(*request.sink);
        stand.asked.insert_or_assign(request.tag, Asked{request, now});
        request.sink = &stand;
      }
    }
    inner_->submit(passed_on);
  }

  void promote(const io::CompletionSink& sink, std::uint64_t tag) override {
    if (const Stand* stand = find(sink)) inner_->promote(*stand, tag);
  }

  void cancel(const io::CompletionSink& sink) override {
    if (const Stand* stand = find(sink)) inner_->cancel(*stand);
  }

 private:
  struct Asked {
    io::ReadRequest request;
    Trace::Time when;
  };
  /// Stands in for one sink; its tags are its own.
  struct Stand final : io::CompletionSink {
    explicit Stand(Tracer& tracer) : owner(tracer) {}
    void complete(io::Completion completion) noexcept override {
      owner.arrived(*this, std::move(completion));
    }
    Tracer& owner;
    std::unordered_map<std::uint64_t, Asked> asked;  // by tag
  };

  Stand& stand_for(io::CompletionSink& sink) {
    std::unique_ptr<Stand>& stand = stands_[&sink];
    if (!stand) stand = std::make_unique<Stand>(*this);
    return *stand;
  }

  const Stand* find(const io::CompletionSink& sink) {
    const std::scoped_lock lock(mutex_);
    const auto found = stands_.find(&sink);
    return found == stands_.end() ? nullptr : found->second.get();
  }

  /// Files of one device are on one drive.
  std::size_t number_of(const std::filesystem::path& path) {
    struct stat status {};
    const dev_t device = ::stat(path.c_str(), &status) == 0 ? status.st_dev : 0;
    const auto [found, is_new] = drives_.emplace(device, drives_.size());
    if (is_new) trace_.name_drive(found->second, path.parent_path().string());
    return found->second;
  }

  void arrived(Stand& stand, io::Completion completion) {
    std::optional<Asked> asked;
    std::size_t drive = 0;
    {
      const std::scoped_lock lock(mutex_);
      auto node = stand.asked.extract(completion.tag);
      asked = std::move(node.mapped());
      drive = drive_of_[asked->request.extent.file];
    }
    const io::ReadRequest& request = asked->request;
    const std::string name = namer_ ? namer_(request) : std::string(name_of(request.purpose));
    trace_.read({.drive = drive,
                 .name = name,
                 .file = inner_->path(request.extent.file).native(),
                 .purpose = name_of(request.purpose),
                 .priority = name_of(request.priority),
                 .offset = request.extent.offset,
                 .bytes = completion.bytes ? completion.bytes->size() : 0,
                 .asked = asked->when,
                 .arrived = Clock::now()});
    request.sink->complete(std::move(completion));
  }

  Trace& trace_;
  std::mutex mutex_;  // guards what follows but namer_; no other lock is taken while it is held
  std::unordered_map<const io::CompletionSink*, std::unique_ptr<Stand>> stands_;
  std::vector<std::size_t> drive_of_;  // by file
  std::map<dev_t, std::size_t> drives_;
  BlockNamer namer_;                   // set before the reads that need it
  std::unique_ptr<io::Reader> inner_;  // last: it completes into all of the above
};

}  // namespace

std::unique_ptr<TracedReader> make_traced_reader(std::unique_ptr<io::Reader> inner, Trace& trace) {
  return std::make_unique<Tracer>(std::move(inner), trace);
}

}  // namespace sluice::engine
