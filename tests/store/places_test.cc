// Shards where the user put them: in several folders, once or more than once.
#include <gtest/gtest.h>

#include "model_files.h"

namespace sluice::store {
namespace {

void write_index(const TempFolder& folder) {
  folder.write(kIndex, index_of({{"a.0", kFirst}, {"a.1", kFirst}, {"b.0", kSecond}}, 12));
}
void write_first(const TempFolder& folder) { folder.write(kFirst, weight_file_of({"a.0", "a.1"})); }
void write_second(const TempFolder& folder) { folder.write(kSecond, weight_file_of({"b.0"})); }

std::string message_of(const TempFolder& folder,
                       const std::vector<std::filesystem::path>& further) {
  const auto checkpoint = Checkpoint::open(folder.path(), further);
  EXPECT_FALSE(checkpoint);
  return checkpoint ? "" : checkpoint.error().message;
}

TEST(Places, AShardIsFoundInAFurtherFolder) {
  TempFolder folder;
  TempFolder other;
  write_index(folder);
  write_first(folder);
  write_second(other);
  const auto checkpoint = Checkpoint::open(folder.path(), {other.path()});
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  ASSERT_EQ(checkpoint->files().size(), 2u);
  EXPECT_EQ(checkpoint->files()[0].path, folder / kFirst);
  EXPECT_EQ(checkpoint->files()[1].path, other / kSecond);
  EXPECT_TRUE(checkpoint->files()[0].copies.empty());
  EXPECT_TRUE(checkpoint->find("b.0"));
  EXPECT_EQ(checkpoint->folder(), folder.path());
}

TEST(Places, TheModelsFolderMayHoldNoWeightsAndNoIndex) {
  TempFolder folder;
  TempFolder one;
  TempFolder two;
  folder.write("config.json", "{}");
  write_first(one);
  write_second(two);
  const auto checkpoint = Checkpoint::open(folder.path(), {one.path(), two.path()});
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensor_count(), 3u);
  EXPECT_EQ(checkpoint->folder(), folder.path());
}

TEST(Places, WhatIsFoundAgainIsACopy) {
  TempFolder folder;
  TempFolder full;
  TempFolder partial;
  write_index(folder);
  for (const TempFolder* each : {&folder, &full}) {
    write_first(*each);
    write_second(*each);
  }
  write_second(partial);
  const auto checkpoint = Checkpoint::open(folder.path(), {partial.path(), full.path()});
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  using Paths = std::vector<std::filesystem::path>;
  EXPECT_EQ(checkpoint->files()[0].copies, (Paths{full / kFirst}));
  EXPECT_EQ(checkpoint->files()[1].copies, (Paths{partial / kSecond, full / kSecond}));
  EXPECT_TRUE(checkpoint->notes().empty());
}

TEST(Places, TheSameFileByAnotherWayIsNoCopy) {
  TempFolder folder;
  TempFolder links;
  write_index(folder);
  write_first(folder);
  write_second(folder);
  std::filesystem::create_symlink(folder / kFirst, links / kFirst);
  const auto checkpoint = Checkpoint::open(folder.path(), {folder.path(), links.path()});
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  for (const ShardFile& file : checkpoint->files()) EXPECT_TRUE(file.copies.empty());
  ASSERT_EQ(checkpoint->notes().size(), 2u);
  for (const std::string& note : checkpoint->notes()) {
    expect_says(note, {"leads to the same files"});
  }
}

TEST(Places, AFolderWithoutAnyShardIsNoted) {
  TempFolder folder;
  TempFolder empty;
  write_first(folder);
  write_second(folder);
  const auto checkpoint = Checkpoint::open(folder.path(), {empty.path()});
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  ASSERT_EQ(checkpoint->notes().size(), 2u);  // the other: there is no index
  expect_says(checkpoint->notes()[1], {empty.path().string(), "holds no weight file"});
}

TEST(Places, Promise6ACopyThatCannotBeReadIsNotedAndLeftOut) {
  TempFolder folder;
  TempFolder full;
  TempFolder dead;
  write_index(folder);
  for (const TempFolder* each : {&folder, &full}) {
    write_first(*each);
    write_second(*each);
  }
  std::filesystem::create_symlink("/no/such/drive/shard", dead / kFirst);
  std::filesystem::create_directory(dead / kSecond);
  const auto checkpoint = Checkpoint::open(folder.path(), {dead.path(), full.path()});
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  using Paths = std::vector<std::filesystem::path>;
  EXPECT_EQ(checkpoint->files()[0].copies, (Paths{full / kFirst}));
  EXPECT_EQ(checkpoint->files()[1].copies, (Paths{full / kSecond}));
  ASSERT_EQ(checkpoint->notes().size(), 2u);
  expect_says(checkpoint->notes()[0], {(dead / kFirst).string(), "going on without this copy"});
  expect_says(checkpoint->notes()[1], {(dead / kSecond).string(), "going on without this copy"});
}

TEST(Places, Promise6AnOriginalThatCannotBeReadIsNotedAndACopyTakesItsPlace) {
  TempFolder dead;
  TempFolder full;
  TempFolder more;
  write_index(dead);
  for (const TempFolder* each : {&full, &more}) {
    write_first(*each);
    write_second(*each);
  }
  std::filesystem::create_symlink("/no/such/drive/shard", dead / kFirst);
  std::filesystem::create_directory(dead / kSecond);
  const auto checkpoint = Checkpoint::open(dead.path(), {full.path(), more.path()});
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensor_count(), 3u);
  EXPECT_EQ(checkpoint->find("b.0")->file, 1u);
  using Paths = std::vector<std::filesystem::path>;
  EXPECT_EQ(checkpoint->files()[0].path, full / kFirst);
  EXPECT_EQ(checkpoint->files()[0].copies, (Paths{more / kFirst}));
  EXPECT_EQ(checkpoint->files()[1].path, full / kSecond);
  EXPECT_EQ(checkpoint->files()[1].copies, (Paths{more / kSecond}));
  ASSERT_EQ(checkpoint->notes().size(), 2u);
  expect_says(checkpoint->notes()[0], {(dead / kFirst).string(), "going on without this copy"});
  expect_says(checkpoint->notes()[1], {(dead / kSecond).string(), "going on without this copy"});
}

TEST(Places, Promise6WhereNoPlaceCanBeReadEachIsNamed) {
  TempFolder folder;
  TempFolder other;
  write_index(folder);
  write_second(folder);
  std::filesystem::create_symlink("/no/such/drive/shard", folder / kFirst);
  std::filesystem::create_directory(other / kFirst);
  expect_says(message_of(folder, {other.path()}),
              {(folder / kFirst).string() + ": the symbolic link leads to no file",
               (other / kFirst).string() + ": a folder, expected a regular file"});
}

TEST(Places, Promise6AnOriginalThatIsDamagedIsAFaultWhateverItsCopies) {
  TempFolder folder;
  TempFolder full;
  write_index(folder);
  write_second(folder);
  folder.write(kFirst, "");
  write_first(full);
  expect_says(message_of(folder, {full.path()}), {kFirst, "the file is empty"});
}

TEST(Places, EveryCopyThatDiffersIsListed) {
  TempFolder folder;
  TempFolder shorter;
  TempFolder renamed;
  write_index(folder);
  write_first(folder);
  write_second(folder);
  std::string cut = weight_file_of({"a.0", "a.1"});
  const std::size_t size = cut.size();
  cut.pop_back();
  shorter.write(kFirst, cut);
  renamed.write(kFirst, weight_file_of({"a.0", "x.1"}));
  renamed.write(kSecond, "");
  const std::string message = message_of(folder, {shorter.path(), renamed.path()});
  expect_says(
      message,
      {(shorter / kFirst).string() + ": expected " + std::to_string(size) + " bytes as in",
       "found " + std::to_string(size - 1), (renamed / kFirst).string() + ": expected the header",
       (renamed / kSecond).string() + ": expected", "found 0"});
}

TEST(Places, WhatIsInNoFolderIsMissingFromAllThatWereSearched) {
  TempFolder folder;
  TempFolder other;
  write_index(folder);
  write_first(other);
  const std::string message = message_of(folder, {other.path()});
  expect_says(message, {kSecond, "no such file in", folder.path().string(), other.path().string()});
}

TEST(Places, AFolderThatIsNotThereIsAFaultBesideTheOthers) {
  TempFolder folder;
  write_index(folder);
  write_first(folder);
  const std::string message = message_of(folder, {folder / "gone", folder / kFirst});
  expect_says(message, {"gone: expected a folder", "found nothing", "found something else", kSecond,
                        "no such file"});
  TempFolder bare;
  expect_says(message_of(bare, {bare / "gone"}), {"gone: expected a folder"});
}

TEST(Places, ACacheFolderStandsForItsSnapshot) {
  TempFolder folder;
  TempFolder cache;
  write_index(folder);
  write_first(folder);
  cache.write("refs/main", "abc");
  cache.write(std::string("snapshots/abc/") + kSecond, weight_file_of({"b.0"}));
  const auto checkpoint = Checkpoint::open(folder.path(), {cache.path()});
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->files()[1].path, cache / (std::string("snapshots/abc/") + kSecond));
}

}  // namespace
}  // namespace sluice::store
