// In which order requests go out: what the priorities promise.

#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <semaphore>

#include "base/log.h"
#include "io/faulty_system.h"
#include "io/make_reader.h"
#include "io_testing.h"
#include "reader_ways.h"

namespace sluice::io {
namespace {

using testing::Batch;
using testing::Collector;
using testing::TempFolder;
using testing::Way;

/// Holds back every read until it is let through.
class GatedSystem final : public System {
 public:
  std::int64_t pread(int descriptor, std::byte* to, std::size_t length,
                     std::uint64_t offset) const override {
    pass();
    return System::pread(descriptor, to, length, offset);
  }
  std::int64_t copy_mapped(std::byte* to, const std::byte* from,
                           std::size_t length) const override {
    pass();
    return System::copy_mapped(to, from, length);
  }

  std::unique_ptr<Ring> make_ring(unsigned entries, int& error) const override {
    auto ring = System::make_ring(entries, error);
    if (ring == nullptr) return nullptr;
    return std::make_unique<GatedRing>(std::move(ring), *this);
  }

  void close_gate() { closed_ = true; }
  void open_gate() {
    closed_ = false;
    gate_.release(1000);
  }
  /// Waits until a read stands at the closed gate.
  void wait_for_visitor() { visitor_.acquire(); }

 private:
  /// A ring whose thread stands at the gate with every read.
  class GatedRing final : public Ring {
   public:
    GatedRing(std::unique_ptr<Ring> inner, const GatedSystem& system)
        : inner_(std::move(inner)), system_(system) {}
    void read(int descriptor, std::byte* to, std::size_t length, std::uint64_t offset,
              std::uint64_t tag, bool patient) override {
      system_.pass();
      inner_->read(descriptor, to, length, offset, tag, patient);
    }
    void poll(int descriptor, std::uint64_t tag) override { inner_->poll(descriptor, tag); }
    int submit_and_wait() override { return inner_->submit_and_wait(); }
    bool next(RingResult& result) override { return inner_->next(result); }
    std::uint64_t memory_bytes() const override { return inner_->memory_bytes(); }

   private:
    std::unique_ptr<Ring> inner_;
    const GatedSystem& system_;
  };

  void pass() const {
    if (!closed_) return;
    visitor_.release();
    gate_.acquire();
  }

  std::atomic<bool> closed_{false};
  mutable std::counting_semaphore<2000> gate_{0};
  mutable std::counting_semaphore<2000> visitor_{0};
};

class OrderTest : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    ReaderOptions options;
    options.system = &system_;
    options.direct = GetParam().direct;
    options.threads = 1;
    options.queue_depth = 1;
    reader_ = *make_reader(GetParam().mode, options);
    file_ = *reader_->open(folder_.file("data", 100000));
    // The only thread stands at the gate with this one, so what follows waits in the queue.
    system_.close_gate();
    Batch first(*reader_, sink_);
    first.add({file_, 0, 100}, kFirst);
    batches_.push_back(std::move(first));
    reader_->submit(batches_.back().requests());
    system_.wait_for_visitor();
  }
  void TearDown() override {
    system_.open_gate();
    reader_.reset();
  }

  void submit(std::uint64_t tag, Priority priority) {
    Batch batch(*reader_, sink_);
    batch.add({file_, tag * 10, 100}, tag, priority);
    batches_.push_back(std::move(batch));
    reader_->submit(batches_.back().requests());
  }

  std::vector<std::uint64_t> order(std::size_t count) {
    system_.open_gate();
    std::vector<std::uint64_t> tags;
    for (const Completion& completion : sink_.wait_for(count)) tags.push_back(completion.tag);
    return tags;
  }

  static constexpr std::uint64_t kFirst = 999;
  const TempFolder folder_;
  GatedSystem system_;
  Collector sink_;
  std::deque<Batch> batches_;
  std::unique_ptr<Reader> reader_;
  FileId file_ = 0;
};

TEST_P(OrderTest, needed_before_read_ahead_before_guess_and_first_come_first_served) {
  submit(1, Priority::guess);
  submit(2, Priority::read_ahead);
  submit(3, Priority::needed);
  submit(4, Priority::guess);
  submit(5, Priority::read_ahead);
  submit(6, Priority::needed);
  EXPECT_EQ(order(7), (std::vector<std::uint64_t>{kFirst, 3, 6, 2, 5, 1, 4}));
}

TEST_P(OrderTest, a_promoted_request_goes_with_the_needed_ones) {
  submit(1, Priority::guess);
  submit(2, Priority::read_ahead);
  submit(3, Priority::needed);
  submit(4, Priority::guess);
  Collector stranger;
  reader_->promote(stranger, 2);  // another sink's tag 2
  reader_->promote(sink_, 4);
  reader_->promote(sink_, 77);      // unknown
  reader_->promote(sink_, kFirst);  // under way
  EXPECT_EQ(order(5), (std::vector<std::uint64_t>{kFirst, 3, 4, 2, 1}));
}

INSTANTIATE_TEST_SUITE_P(All, OrderTest, ::testing::ValuesIn(testing::all_ways()),
                         testing::way_name);

/// Every file is on a drive of its own, and reads go to the kernel only once they are let go.
class HoldingSystem final : public System {
 public:
  int open(const char* path, bool) const override { return System::open(path, false); }
  int describe(int descriptor, FileFacts& facts) const override {
    const int error = System::describe(descriptor, facts);
    facts.device = facts.inode;
    return error;
  }
  std::unique_ptr<Ring> make_ring(unsigned entries, int& error) const override {
    auto ring = System::make_ring(entries, error);
    if (ring == nullptr) return nullptr;
    return std::make_unique<HoldingRing>(std::move(ring), *this);
  }

  /// How many reads each drive has under way, once so many drives have some, or after long enough.
  std::vector<std::size_t> wait_for_drives(std::size_t drives) {
    std::unique_lock lock(mutex_);
    came_.wait_for(lock, std::chrono::seconds(60), [&] { return held_.size() == drives; });
    std::vector<std::size_t> counts;
    for (const auto& [descriptor, count] : held_) counts.push_back(count);
    return counts;
  }
  /// From the next wake-up of the ring's thread on.
  void let_go() { holds_ = false; }

 private:
  class HoldingRing final : public Ring {
   public:
    HoldingRing(std::unique_ptr<Ring> inner, const HoldingSystem& system)
        : inner_(std::move(inner)), system_(system) {}
    void read(int descriptor, std::byte* to, std::size_t length, std::uint64_t offset,
              std::uint64_t tag, bool patient) override {
      if (!system_.holds_) return inner_->read(descriptor, to, length, offset, tag, patient);
      reads_.push_back({descriptor, to, length, offset, tag, patient});
      const std::scoped_lock lock(system_.mutex_);
      ++system_.held_[descriptor];
      system_.came_.notify_all();
    }
    void poll(int descriptor, std::uint64_t tag) override { inner_->poll(descriptor, tag); }
    int submit_and_wait() override {
      if (!system_.holds_) {
        for (const Read& read : reads_) {
          inner_->read(read.descriptor, read.to, read.length, read.offset, read.tag, read.patient);
        }
        reads_.clear();
      }
      return inner_->submit_and_wait();
    }
    bool next(RingResult& result) override { return inner_->next(result); }
    std::uint64_t memory_bytes() const override { return inner_->memory_bytes(); }

   private:
    struct Read {
      int descriptor;
      std::byte* to;
      std::size_t length;
      std::uint64_t offset;
      std::uint64_t tag;
      bool patient;
    };
    std::unique_ptr<Ring> inner_;
    const HoldingSystem& system_;
    std::vector<Read> reads_;  // the ring's thread's alone
  };

  std::atomic<bool> holds_{true};
  mutable std::mutex mutex_;  // guards what follows
  mutable std::condition_variable came_;
  mutable std::map<int, std::size_t> held_;  // by descriptor
};

TEST(UringReader, no_drive_takes_the_ring_from_the_others_however_long_its_queue) {
  int error = 0;
  if (operating_system().make_ring(8, error) == nullptr) GTEST_SKIP() << "no io_uring here";
  const TempFolder folder;
  HoldingSystem system;
  auto reader = *make_reader(IoMode::uring, {.queue_depth = 128, .system = &system});
  Collector sink;
  Batch batch(*reader, sink);
  std::vector<FileId> files;
  for (const char* name : {"a", "b", "c"}) {
    files.push_back(*reader->open(folder.file(name, 100'000)));
  }
  for (const FileId file : files) {
    for (std::uint64_t i = 0; i < 200; ++i) batch.add({file, i, 100}, i);
  }
  reader->submit(batch.requests());
  const std::vector<std::size_t> under_way = system.wait_for_drives(files.size());
  EXPECT_EQ(under_way.size(), files.size());
  for (const std::size_t reads : under_way) EXPECT_LE(reads, 85u);
  system.let_go();
  reader->cancel(sink);  // wakes the ring's thread
  EXPECT_EQ(sink.so_far().size(), batch.size());
}

TEST(IoMode, names_are_parsed_and_anything_else_is_refused) {
  for (const IoMode mode : {IoMode::pread, IoMode::mmap, IoMode::uring, IoMode::automatic}) {
    EXPECT_EQ(*parse_io_mode(name_of(mode)), mode);
  }
  for (const char* text : {"", "PREAD", "pread ", "fread"}) {
    const auto mode = parse_io_mode(text);
    ASSERT_FALSE(mode.has_value()) << text;
    EXPECT_EQ(mode.error().kind, ErrorKind::usage);
  }
}

TEST(MakeReader, options_out_of_range_are_refused) {
  for (const ReaderOptions& options :
       {ReaderOptions{.threads = 0}, ReaderOptions{.threads = 100000},
        ReaderOptions{.queue_depth = -1}, ReaderOptions{.queue_depth = 100000},
        ReaderOptions{.piece_bytes = 0}, ReaderOptions{.piece_bytes = 4097},
        ReaderOptions{.max_call_bytes = 0}, ReaderOptions{.max_call_bytes = 100}}) {
    const auto reader = make_reader(IoMode::pread, options);
    ASSERT_FALSE(reader.has_value());
    EXPECT_EQ(reader.error().kind, ErrorKind::usage);
  }
}

TEST(MakeReader, a_system_without_io_uring_reads_with_threads_and_says_so_once) {
  for (const int error : {EPERM, ENOSYS, ENOMEM, EOPNOTSUPP}) {
    forget_notes();
    const TempFolder folder;
    FaultySystem system({{.kind = SystemFault::Kind::refuse_ring, .error_number = error}});
    system.arm();
    ::testing::internal::CaptureStderr();
    for (const char* name : {"a", "b"}) {
      auto reader = *make_reader(IoMode::automatic, {.system = &system});
      const auto file = reader->open(folder.file(name, 10000));
      const testing::Room room(reader->room_for(10000));
      const auto bytes = read_now(*reader, {*file, 0, 10000}, room.bytes(), Purpose::other);
      ASSERT_TRUE(bytes.has_value());
      EXPECT_TRUE(testing::is_content(*bytes, 0));
    }
    const std::string said = ::testing::internal::GetCapturedStderr();
    const auto first = said.find("io_uring cannot be used here");
    ASSERT_NE(first, std::string::npos) << said;
    EXPECT_EQ(said.find("io_uring", first + 1), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace sluice::io
