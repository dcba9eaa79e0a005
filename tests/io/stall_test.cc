// A drive that does not answer is named, once for each time.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>

#include "io/drive.h"
#include "io/make_reader.h"
#include "io_testing.h"

namespace sluice::io {
namespace {

using testing::Room;
using testing::TempFolder;

std::size_t count(const std::string& text, std::string_view what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++found;
  }
  return found;
}

TEST(Stall, IsToldOncePerStallAndSoIsItsEnd) {
  Drive drive(1, "/drive", 0);
  const std::filesystem::path file = "/drive/model.safetensors";
  ::testing::internal::CaptureStderr();
  drive.report_stall(Clock::duration::zero());  // nothing is under way
  drive.begin_read(file);
  drive.report_stall(std::chrono::hours(1));  // not for so long
  drive.report_stall(Clock::duration::zero());
  drive.report_stall(Clock::duration::zero());
  drive.end_read(1, Priority::needed);
  drive.report_stall(Clock::duration::zero());
  drive.begin_read(file);
  drive.report_stall(Clock::duration::zero());
  drive.end_read(1, Priority::needed);
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(count(told, "/drive: no read has come back"), 2u) << told;
  EXPECT_EQ(count(told, file.string()), 2u) << told;
  EXPECT_EQ(count(told, "a read came back"), 2u) << told;
}

/// stderr, led into a file that can be looked at meanwhile.
class Watched {
 public:
  explicit Watched(std::filesystem::path file) : file_(std::move(file)), before_(::dup(2)) {
    const int file_now = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(::dup2(file_now, 2), 2);
    ::close(file_now);
  }
  ~Watched() {
    ::dup2(before_, 2);
    ::close(before_);
  }
  std::string text() const {
    std::ifstream in(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

 private:
  std::filesystem::path file_;
  int before_;
};

/// A drive that answers once it was complained about.
class OffendedSystem final : public System {
 public:
  explicit OffendedSystem(const Watched& watched) : watched_(watched) {}
  /// It answers at once before.
  void arm() { armed_ = true; }
  std::int64_t pread(int descriptor, std::byte* to, std::size_t length,
                     std::uint64_t offset) const override {
    for (int i = 0; armed_ && i < 12'000 && count(watched_.text(), "no read has come back") == 0;
         ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return System::pread(descriptor, to, length, offset);
  }

 private:
  const Watched& watched_;
  std::atomic<bool> armed_{false};
};

TEST(Stall, OfAReaderIsTold) {
  const TempFolder folder;
  const auto path = folder.file("weights", 100'000);
  std::string told;
  {
    const Watched watched(folder.path() / "stderr");
    OffendedSystem system(watched);
    ReaderOptions options;
    options.system = &system;
    options.stall_after = std::chrono::milliseconds(20);
    const auto reader = make_reader(IoMode::pread, options);
    ASSERT_TRUE(reader);
    const auto file = (*reader)->open(path);
    ASSERT_TRUE(file);
    system.arm();
    const Room room((*reader)->room_for(5000));
    const auto bytes = read_now(**reader, {*file, 777, 5000}, room.bytes(), Purpose::other);
    ASSERT_TRUE(bytes);
    EXPECT_TRUE(testing::is_content(*bytes, 777));
    told = watched.text();
  }
  EXPECT_EQ(count(told, folder.path().string() + ": no read has come back"), 1u) << told;
  EXPECT_EQ(count(told, path.string()), 1u) << told;
  EXPECT_EQ(count(told, "going on"), 1u) << told;
}

}  // namespace
}  // namespace sluice::io
