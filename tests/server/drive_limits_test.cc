#include "server/drive_limits.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "server/folder.h"

namespace sluice::server {
namespace {

TEST(DriveLimits, AreMeasuredWhereThereIsSomethingToRead) {
  const Folder own;
  const std::filesystem::path& folder = own.path();
  engine::EngineOptions options;
  options.model = folder;
  options.ram = std::uint64_t{64} << 20;
  std::ofstream(folder / "small") << "x";
  std::ofstream(folder / "holes").close();
  std::filesystem::resize_file(folder / "holes", std::uint64_t{64} << 20);
  EXPECT_TRUE(measure_drive_limits(options).empty()) << "nothing of it comes from the drive";

  std::string noise(std::size_t{1} << 20, '\0');  // some file systems make nothing of a pattern
  std::mt19937 random(7);
  for (char& byte : noise) byte = static_cast<char>(random());
  {
    std::ofstream large(folder / "large");
    for (int i = 0; i < 33; ++i) large << noise;
  }
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
}

}  // namespace
}  // namespace sluice::server
