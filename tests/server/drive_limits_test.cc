#include "server/drive_limits.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace sluice::server {
namespace {

TEST(DriveLimits, AreMeasuredWhereThereIsSomethingToRead) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("sluice-limits-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  engine::EngineOptions options;
  options.model = folder;
  options.ram = std::uint64_t{64} << 20;
  std::ofstream(folder / "small") << "x";
  std::ofstream(folder / "holes").close();
  std::filesystem::resize_file(folder / "holes", std::uint64_t{64} << 20);
  EXPECT_TRUE(measure_drive_limits(options).empty()) << "nothing of it comes from the drive";

  std::ofstream(folder / "large") << std::string(std::size_t{33} << 20, 'x');
  struct stat facts {};
  ASSERT_EQ(::stat((folder / "large").c_str(), &facts), 0);
  const std::vector<DriveLimit> limits = measure_drive_limits(options);
  ASSERT_EQ(limits.size(), 1u);
  EXPECT_GT(limits[0].bytes_per_s, 0);
  EXPECT_EQ(limit_of(limits, facts.st_dev), limits[0].bytes_per_s);
  EXPECT_FALSE(limit_of(limits, facts.st_dev + 1));

  options.model = folder / "large";  // as a GGUF file is
  EXPECT_EQ(measure_drive_limits(options).size(), 1u);
  options.model = folder / "nothing";
  EXPECT_TRUE(measure_drive_limits(options).empty());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace sluice::server
