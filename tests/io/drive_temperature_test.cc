#include "io/drive_temperature.h"

#include <sys/sysmacros.h>

#include "io_testing.h"

namespace sluice::io {
namespace {

namespace fs = std::filesystem;

/// A sysfs that is made up.
class FakeSystem {
 public:
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_.path() / name).parent_path());
    std::ofstream(folder_.path() / name) << text;
  }
  void link(const std::string& name, const std::string& to) {
    fs::create_directories((folder_.path() / name).parent_path());
    fs::create_directories(folder_.path() / to);
    fs::create_symlink(folder_.path() / to, folder_.path() / name);
  }
  std::optional<double> temperature(unsigned major, unsigned minor) const {
    return drive_temperature(gnu_dev_makedev(major, minor), folder_.path());
  }

 private:
  testing::TempFolder folder_;
};

TEST(DriveTemperature, nvme_says_it_itself_for_the_disk_and_its_partitions) {
  FakeSystem system;
  system.write("devices/nvme0/hwmon3/temp1_input", "48850\n");
  system.write("devices/nvme0/hwmon3/temp2_input", "60000\n");
  system.link("devices/nvme0/nvme0n1/device", "devices/nvme0");
  system.link("dev/block/259:0", "devices/nvme0/nvme0n1");
  system.write("devices/nvme0/nvme0n1/nvme0n1p2/partition", "2\n");
  system.link("dev/block/259:2", "devices/nvme0/nvme0n1/nvme0n1p2");
  EXPECT_DOUBLE_EQ(system.temperature(259, 0).value(), 48.85);
  EXPECT_DOUBLE_EQ(system.temperature(259, 2).value(), 48.85);
}

TEST(DriveTemperature, sata_has_it_one_folder_deeper) {
  FakeSystem system;
  system.write("devices/ata1/target/hwmon/hwmon7/temp1_input", "-5000\n");
  system.link("devices/ata1/target/block/sda/device", "devices/ata1/target");
  system.link("dev/block/8:0", "devices/ata1/target/block/sda");
  EXPECT_DOUBLE_EQ(system.temperature(8, 0).value(), -5);
}

TEST(DriveTemperature, of_several_drives_under_a_volume_the_hottest_counts) {
  FakeSystem system;
  for (const auto& [name, degrees] : {std::pair("sda", "31000"), std::pair("sdb", "44000")}) {
    const std::string disk = std::string("devices/") + name;
    system.write(disk + "-target/hwmon/hwmon1/temp1_input", degrees);
    system.link(disk + "/device", disk + "-target");
    system.link(std::string("devices/virtual/dm-0/slaves/") + name, disk);
  }
  system.link("dev/block/253:0", "devices/virtual/dm-0");
  EXPECT_DOUBLE_EQ(system.temperature(253, 0).value(), 44);
}

TEST(DriveTemperature, what_tells_nothing_is_unknown) {
  FakeSystem system;
  system.link("dev/block/7:0", "devices/virtual/loop0");
  system.write("devices/nvme0/hwmon3/temp1_input", "not a number");
  system.link("devices/nvme0/nvme0n1/device", "devices/nvme0");
  system.link("dev/block/259:0", "devices/nvme0/nvme0n1");
  system.link("devices/virtual/dm-1/slaves/dm-1", "devices/virtual/dm-1");  // a volume upon itself
  system.link("dev/block/253:1", "devices/virtual/dm-1");
  EXPECT_FALSE(system.temperature(7, 0));
  EXPECT_FALSE(system.temperature(259, 0));
  EXPECT_FALSE(system.temperature(253, 1));
  EXPECT_FALSE(system.temperature(1, 1));
}

}  // namespace
}  // namespace sluice::io
