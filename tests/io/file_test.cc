#include "io/file.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "io/faulty_system.h"
#include "io/read_fully.h"
#include "io_testing.h"

namespace sluice::io {
namespace {

using testing::is_content;
using testing::TempFolder;

std::string refusal(const std::filesystem::path& path, ErrorKind kind = ErrorKind::model_files) {
  const Result<File> file = File::open(path);
  EXPECT_FALSE(file.has_value()) << path;
  if (file) return {};
  EXPECT_EQ(file.error().kind, kind) << file.error().message;
  EXPECT_NE(file.error().message.find(path.filename().string()), std::string::npos)
      << file.error().message;
  return file.error().message;
}

TEST(File, reads_exactly_the_bytes_asked_for) {
  const TempFolder folder;
  const Result<File> file = File::open(folder.file("data", 10000));
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->size(), 10000u);
  std::vector<std::byte> bytes(777);
  ASSERT_TRUE(file->read_exact(9223, bytes).has_value());
  EXPECT_TRUE(is_content(bytes, 9223));
  EXPECT_TRUE(file->read_exact(10000, {}).has_value());
}

TEST(File, a_range_outside_the_file_is_refused_before_reading) {
  const TempFolder folder;
  const Result<File> file = File::open(folder.file("data", 100));
  std::vector<std::byte> bytes(10);
  for (const std::uint64_t offset :
       {std::uint64_t{91}, std::uint64_t{101}, ~std::uint64_t{0}, ~std::uint64_t{0} - 9}) {
    const Status status = file->read_exact(offset, bytes);
    ASSERT_FALSE(status.has_value()) << offset;
    EXPECT_EQ(status.error().kind, ErrorKind::model_files);
  }
}

TEST(File, a_file_cut_after_it_was_opened_is_an_error_of_the_drive) {
  const TempFolder folder;
  const auto path = folder.file("data", 100);
  const Result<File> file = File::open(path);
  std::filesystem::resize_file(path, 50);
  std::vector<std::byte> bytes(60);
  const Status status = file->read_exact(20, bytes);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().kind, ErrorKind::drive);
  EXPECT_NE(status.error().message.find("shorter than when it was opened"), std::string::npos);
  EXPECT_NE(status.error().message.find("wanted 60 bytes at offset 20, got 30"), std::string::npos)
      << status.error().message;
}

TEST(File, only_regular_files_open) {
  const TempFolder folder;
  EXPECT_NE(refusal(folder.path()).find("a folder"), std::string::npos);

  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(refusal(pipe).find("a pipe"), std::string::npos);  // and does not wait for a writer

  EXPECT_NE(refusal("/dev/null").find("a device"), std::string::npos);

  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const auto socket = folder.path() / "socket";
  ASSERT_LT(socket.native().size(), sizeof(address.sun_path));
  socket.native().copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_NE(refusal(socket).find("socket"), std::string::npos);
  ::close(descriptor);
}

TEST(File, what_is_missing_is_named) {
  const TempFolder folder;
  EXPECT_NE(refusal(folder.path() / "missing").find("no such file"), std::string::npos);
  std::filesystem::create_symlink(folder.path() / "gone", folder.path() / "link");
  EXPECT_NE(refusal(folder.path() / "link").find("symbolic link"), std::string::npos);
  std::filesystem::create_symlink(folder.path() / "loop", folder.path() / "loop");
  refusal(folder.path() / "loop");
  EXPECT_FALSE(File::open(folder.file("a", 1).string() + std::string("\0b", 2)).has_value());
}

TEST(File, a_file_that_may_not_be_read_is_refused) {
  const TempFolder folder;
  const auto path = folder.file("secret", 10);
  std::filesystem::permissions(path, std::filesystem::perms::none);
  if (::access(path.c_str(), R_OK) == 0) GTEST_SKIP() << "root may read everything";
  EXPECT_NE(refusal(path).find("permission"), std::string::npos);
}

TEST(File, a_symbolic_link_to_a_file_opens) {
  const TempFolder folder;
  std::filesystem::create_symlink(folder.file("blob", 5), folder.path() / "model.safetensors");
  const Result<File> file = File::open(folder.path() / "model.safetensors");
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->size(), 5u);
}

TEST(File, moving_keeps_exactly_one_owner_of_the_descriptor) {
  const TempFolder folder;
  Result<File> first = File::open(folder.file("first", 10));
  Result<File> second = File::open(folder.file("second", 20));
  *first = *std::move(second);
  EXPECT_EQ(first->size(), 20u);
  std::vector<std::byte> bytes(20);
  EXPECT_TRUE(first->read_exact(0, bytes).has_value());
  const File moved = *std::move(first);
  EXPECT_TRUE(moved.read_exact(0, bytes).has_value());
}

class ReadFully : public ::testing::Test {
 protected:
  /// Reads the whole file of 100000 bytes over a system with these faults.
  ReadOutcome read(const std::vector<SystemFault>& faults, CallLimits limits = {}) {
    FaultySystem system(faults);
    const Result<File> file = File::open(folder_.file("data", kSize), system);
    system.arm();
    bytes_.assign(kSize, std::byte{0});
    const ReadOutcome outcome =
        read_fully(system, file->descriptor(), bytes_.data(), kSize, 0, limits);
    hits_ = system.hits();
    return outcome;
  }

  static constexpr std::uint64_t kSize = 100000;
  const TempFolder folder_;
  std::vector<std::byte> bytes_;
  std::uint64_t hits_ = 0;
};

using Kind = SystemFault::Kind;

TEST_F(ReadFully, goes_on_after_short_reads) {
  EXPECT_TRUE(read({{.kind = Kind::short_read, .count = 8}}).complete(kSize));
  EXPECT_EQ(hits_, 8u);
  EXPECT_TRUE(is_content(bytes_, 0));
}

TEST_F(ReadFully, asks_again_after_signals_however_many) {
  EXPECT_TRUE(read({{.kind = Kind::interrupted, .count = 1000}}).complete(kSize));
  EXPECT_EQ(hits_, 1000u);
  EXPECT_TRUE(is_content(bytes_, 0));
}

TEST_F(ReadFully, asks_again_a_few_times_when_told_to) {
  EXPECT_TRUE(read({{.kind = Kind::again, .count = 3}}).complete(kSize));
  EXPECT_TRUE(is_content(bytes_, 0));
}

TEST_F(ReadFully, gives_up_when_told_to_ask_again_for_ever) {
  const ReadOutcome outcome = read({{.kind = Kind::again}});
  EXPECT_EQ(outcome.error, EAGAIN);
  EXPECT_GT(hits_, 3u);
}

TEST_F(ReadFully, reports_how_far_it_came_before_an_error) {
  const ReadOutcome outcome = read({{.kind = Kind::short_read}, {.kind = Kind::error, .from = 1}});
  EXPECT_EQ(outcome.error, EIO);
  EXPECT_EQ(outcome.got, kSize / 2);
}

TEST_F(ReadFully, reports_the_end_of_the_file_without_an_error_number) {
  const ReadOutcome outcome = read({{.kind = Kind::shrink, .size = 12345}});
  EXPECT_EQ(outcome.error, 0);
  EXPECT_EQ(outcome.got, 12345u);
}

// Linux reads at most 2 GiB - 4 KiB per call. A small limit takes the same path through the code.
TEST_F(ReadFully, never_asks_for_more_than_the_limit_per_call) {
  EXPECT_TRUE(read({{.kind = Kind::delay}}, {.max_bytes = 4096, .alignment = 1}).complete(kSize));
  EXPECT_EQ(hits_, (kSize + 4095) / 4096);
  EXPECT_TRUE(is_content(bytes_, 0));
}

TEST_F(ReadFully, stays_aligned_after_a_short_read) {
  // 100000 / 2 is no multiple of 512: the read goes on from the last whole block.
  const ReadOutcome outcome =
      read({{.kind = Kind::short_read, .count = 1}}, {.max_bytes = 1 << 20, .alignment = 512});
  EXPECT_EQ(outcome.error, 0);
  EXPECT_EQ(outcome.got, kSize / 512 * 512);
}

TEST(File, a_place_that_is_refused_is_the_drives_fault_only_when_it_is_full_or_fails) {
  for (const int error : {EIO, ENOSPC}) EXPECT_EQ(kind_of_refused_place(error), ErrorKind::drive);
  for (const int error : {ENOENT, ENOTDIR, EACCES, EROFS}) {
    EXPECT_EQ(kind_of_refused_place(error), ErrorKind::usage);
  }
}

}  // namespace
}  // namespace sluice::io
