// In which order requests go out: what the priorities promise.

#include <semaphore>

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

  void close_gate() { closed_ = true; }
  void open_gate() {
    closed_ = false;
    gate_.release(1000);
  }
  /// Waits until a read stands at the closed gate.
  void wait_for_visitor() { visitor_.acquire(); }

 private:
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

TEST(IoMode, names_are_parsed_and_anything_else_is_refused) {
  for (const IoMode mode : {IoMode::pread, IoMode::mmap}) {
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
        ReaderOptions{.piece_bytes = 0}, ReaderOptions{.piece_bytes = 4097},
        ReaderOptions{.max_call_bytes = 0}, ReaderOptions{.max_call_bytes = 100}}) {
    const auto reader = make_reader(IoMode::pread, options);
    ASSERT_FALSE(reader.has_value());
    EXPECT_EQ(reader.error().kind, ErrorKind::usage);
  }
}

}  // namespace
}  // namespace sluice::io
