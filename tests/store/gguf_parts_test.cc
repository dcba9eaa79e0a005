// GGUF models in several files: found by any part, as they lie in a folder and in a cache of links.
#include <gtest/gtest.h>

#include "gguf_files.h"
#include "model_files.h"
#include "store/metadata.h"

namespace sluice::store {
namespace {

GgufFile part(std::uint16_t number, std::uint16_t count, std::int32_t tensors) {
  GgufFile file;
  file.value("split.no", ValueType::u16, raw(number));
  file.value("split.count", ValueType::u16, raw(count));
  file.value("split.tensors.count", ValueType::i32, raw(tensors));
  return file;
}

TEST(GgufParts, AModelInPartsOpensByAnyOfThem) {
  TempFolder folder;
  const auto first = folder.write(
      "m-00001-of-00002.gguf",
      part(0, 2, 2).text("general.name", "whole").tensor("a", {3}, kGgmlF32, 12).bytes());
  const auto second =
      folder.write("m-00002-of-00002.gguf", part(1, 2, 2).tensor("b", {1}, kGgmlF32, 4).bytes());
  for (const auto& way : {first, second, folder.path()}) {
    const auto checkpoint = Checkpoint::open(way);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->find("a")->file, 0u);
    EXPECT_EQ(checkpoint->find("b")->file, 1u);
    EXPECT_EQ(checkpoint->metadata()->text("general.name").value(), "whole");
  }
  folder.write("m-00002-of-00002.gguf", part(0, 2, 2).tensor("b", {1}, kGgmlF32, 4).bytes());
  expect_says(fault_of(first), {"m-00002-of-00002.gguf: says that it is part 1 of 2",
                                "its name makes it part 2 of 2"});
  folder.write("m-00002-of-00002.gguf", part(1, 2, 2).bytes());
  expect_says(fault_of(first), {"split.tensors.count is 2, but the parts hold 1"});
  std::filesystem::remove(folder / "m-00002-of-00002.gguf");
  expect_says(fault_of(first), {"m-00002-of-00002.gguf: no such file"});
}

constexpr const char* kFirstPart = "m-00001-of-00003.gguf";
constexpr const char* kSecondPart = "m-00002-of-00003.gguf";
constexpr const char* kThirdPart = "m-00003-of-00003.gguf";

/// A model's folder in a Hugging Face cache: the snapshot's names are links to files named by hash,
/// whose order is another one than that of the parts.
std::filesystem::path write_cache_of_parts(const TempFolder& folder) {
  folder.write("refs/main", "abc123");
  folder.write("blobs/9999", part(0, 3, 3).tensor("a", {3}, kGgmlF32, 12).bytes());
  folder.write("blobs/1111", part(1, 3, 3).tensor("b", {1}, kGgmlF32, 4).bytes());
  folder.write("blobs/5555", part(2, 3, 3).tensor("c", {2}, kGgmlF32, 8).bytes());
  const auto snapshot = folder / "snapshots/abc123";
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_symlink("../../blobs/9999", snapshot / kFirstPart);
  std::filesystem::create_symlink("../../blobs/1111", snapshot / kSecondPart);
  std::filesystem::create_symlink("../../blobs/5555", snapshot / kThirdPart);
  return snapshot;
}

TEST(GgufParts, LinksOfACacheSnapshotKeepTheirSiblings) {
  TempFolder folder;
  const auto snapshot = write_cache_of_parts(folder);
  TempFolder elsewhere;  // a link to the folder, too
  std::filesystem::create_directory_symlink(snapshot, elsewhere / "model");
  for (const auto& way :
       {folder.path(), snapshot, snapshot / kFirstPart, snapshot / kSecondPart,
        snapshot / kThirdPart, elsewhere / "model", elsewhere / "model" / kSecondPart}) {
    const auto checkpoint = Checkpoint::open(way);
    ASSERT_TRUE(checkpoint) << way << ": " << checkpoint.error().message;
    EXPECT_EQ(checkpoint->tensor_count(), 3u) << way;
    ASSERT_EQ(checkpoint->files().size(), 3u) << way;
    EXPECT_EQ(checkpoint->find("a")->file, 0u);
    EXPECT_EQ(checkpoint->find("b")->file, 1u);
    EXPECT_EQ(checkpoint->find("c")->file, 2u);
    EXPECT_EQ(checkpoint->payload_bytes(), 24u);
  }
}

TEST(GgufParts, WhatIsMissingInACacheIsNamedByItsPart) {
  for (const char* way : {kFirstPart, kSecondPart, kThirdPart, ""}) {
    TempFolder folder;
    const auto snapshot = write_cache_of_parts(folder);
    std::filesystem::remove(folder / "blobs/1111");
    const auto path = *way == '\0' ? snapshot : snapshot / way;
    expect_says(fault_of(path), {kSecondPart, "link leads to no file", "download"});
    std::filesystem::remove(snapshot / kSecondPart);
    if (way == std::string_view(kSecondPart)) continue;  // nothing of this name is there any more
    expect_says(fault_of(path), {kSecondPart});
  }
}

TEST(GgufParts, LinksThatMixTwoModelsAreRefused) {
  TempFolder folder;
  const auto snapshot = write_cache_of_parts(folder);
  std::filesystem::remove(snapshot / kThirdPart);
  std::filesystem::create_symlink("../../blobs/1111", snapshot / kThirdPart);  // part 2 once more
  expect_says(fault_of(snapshot / kFirstPart), {"says that it is part 2 of 3", kThirdPart});
}

}  // namespace
}  // namespace sluice::store
