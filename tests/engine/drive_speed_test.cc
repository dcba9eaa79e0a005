// Measuring drives: on the user's files where they will do, else on a file that leaves nothing.
#include "engine/drive_speed.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/size.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;

class DriveSpeedTest : public testing::Test {
 protected:
  DriveSpeedTest() {
    std::string name = (fs::temp_directory_path() / "sluice-drive-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~DriveSpeedTest() override { fs::remove_all(folder_); }
  fs::path write(const std::string& name, std::uint64_t bytes) const {
    std::ofstream(folder_ / name) << std::string(bytes, 'x');
    return folder_ / name;
  }
  fs::path folder_;
};

TEST_F(DriveSpeedTest, TakesFilesThatAreLargeEnoughAndHoldData) {
  write("small", kMiB);
  const fs::path large = write("large", 32 * kMiB);
  fs::resize_file(write("holes", 1), 64 * kMiB);
  const auto files = TrialFiles::find(folder_);
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(files->paths(), std::vector<fs::path>{large});
  EXPECT_FALSE(files->is_temporary());
}

TEST_F(DriveSpeedTest, ATemporaryFileHasNoNameAndCanBeMeasured) {
  auto files = TrialFiles::find(folder_, 8 * kMiB);
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_TRUE(files->is_temporary());
  EXPECT_TRUE(fs::is_empty(folder_));
  for (const io::IoMode mode : {io::IoMode::pread, io::IoMode::mmap, io::IoMode::automatic}) {
    const auto speed = measure_drive(*files, {.mode = mode, .in_flight = 2, .seconds = 0.01});
    ASSERT_TRUE(speed) << speed.error().message;
    EXPECT_GT(speed->bytes_per_s, 0);
    EXPECT_GE(speed->bytes, 2 * kMiB);  // a quarter of the file at least once
  }
}

TEST_F(DriveSpeedTest, SaysWhatIsWrong) {
  const auto missing = TrialFiles::find(folder_ / "nothing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::usage);
  const auto device = TrialFiles::find("/dev/null");  // beside it lies memory
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().kind, ErrorKind::usage);
  const auto sealed = TrialFiles::find("/proc/sys/kernel", kMiB);
  ASSERT_FALSE(sealed);
  EXPECT_EQ(sealed.error().kind, ErrorKind::drive);
  EXPECT_NE(sealed.error().message.find("/proc/sys/kernel"), std::string::npos);
  EXPECT_FALSE(measure_drive(TrialFiles::among({}), {}));
}

}  // namespace
}  // namespace sluice::engine
