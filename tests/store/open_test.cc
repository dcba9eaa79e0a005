// What opens, by which path, and what it then says about itself.
#include <gtest/gtest.h>

#include "model_files.h"

namespace sluice::store {
namespace {

/// Two shards with two tensors each, and an index.
void write_two_shards(const TempFolder& folder, const std::string& prefix = "") {
  folder.write(prefix + kFirst, weight_file_of({"a.0", "a.1"}));
  folder.write(prefix + kSecond, weight_file_of({"b.0", "b.1"}));
  folder.write(
      prefix + kIndex,
      index_of({{"b.1", kSecond}, {"a.1", kFirst}, {"b.0", kSecond}, {"a.0", kFirst}}, 16));
}

/// It is the model of write_two_shards().
void expect_two_shards(const std::filesystem::path& path) {
  const auto checkpoint = Checkpoint::open(path);
  ASSERT_TRUE(checkpoint) << path << ": " << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensor_count(), 4u) << path;
  ASSERT_EQ(checkpoint->files().size(), 2u) << path;
  EXPECT_EQ(checkpoint->payload_bytes(), 16u);
  EXPECT_EQ(checkpoint->folder() / kFirst, checkpoint->files()[0].path);
  ASSERT_TRUE(checkpoint->find("b.1"));
  EXPECT_EQ(checkpoint->find("b.1")->file, 1u);
}

TEST(Open, AFolderAnIndexAndAnyShardLeadToTheModel) {
  TempFolder folder;
  write_two_shards(folder);
  expect_two_shards(folder.path());
  expect_two_shards(folder.path().string() + "/");
  expect_two_shards(folder / kIndex);
  expect_two_shards(folder / kFirst);
  expect_two_shards(folder / kSecond);
}

TEST(Open, ASetOfShardsNeedsNoIndex) {
  TempFolder folder;
  write_two_shards(folder);
  std::filesystem::remove(folder / kIndex);
  expect_two_shards(folder.path());
  expect_two_shards(folder / kFirst);
  expect_two_shards(folder / kSecond);
  for (const auto& path : {folder.path(), folder / kSecond}) {
    const auto notes = Checkpoint::open(path)->notes();
    ASSERT_EQ(notes.size(), 1u);
    expect_says(notes[0], {"no model.safetensors.index.json", "2 weight files"});
  }
}

TEST(Open, TheFolderOfAModelIsFoundWithoutItsWeights) {
  TempFolder folder;
  write_two_shards(folder);
  EXPECT_EQ(folder_of_model(folder.path()).value(), folder.path());
  EXPECT_EQ(folder_of_model(folder / kFirst).value(), folder.path());
  EXPECT_EQ(folder_of_model(folder / kIndex).value(), folder.path());
  TempFolder bare;
  EXPECT_EQ(folder_of_model(bare.path()).value(), bare.path());
  EXPECT_FALSE(folder_of_model(bare / "nothing"));
  TempFolder cache;
  cache.write("refs/main", "abc123");
  const auto snapshot = cache / "snapshots/abc123";
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_symlink("../../blobs/1111", snapshot / kIndex);  // leads nowhere
  EXPECT_EQ(folder_of_model(cache.path()).value(), snapshot);
}

TEST(Open, WhatCannotBeAModelIsRefusedWithWhatWasExpected) {
  TempFolder folder;
  expect_says(fault_of("/dev/null"), {"/dev/null: this is no model", "folder", "index"});
  const auto config = folder.write("config.json", "{}");
  expect_says(fault_of(config), {"give the model's folder, " + folder.path().string(),
                                 "sluice plan " + config.string()});
  expect_says(fault_of(folder.write("tokenizer.json", "{}")), {"give the model's folder"});
}

TEST(Open, ASingleFileIsAModel) {
  TempFolder folder;
  const auto file = folder.write("model.safetensors", weight_file_of({"a", "b"}));
  for (const auto& path : {folder.path(), file}) {
    const auto checkpoint = Checkpoint::open(path);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->tensor_count(), 2u);
    EXPECT_TRUE(checkpoint->notes().empty());
  }
}

TEST(Open, AFileOfAnyNameOpensByItsName) {
  TempFolder folder;
  write_two_shards(folder);
  const auto other = folder.write("other.safetensors", weight_file_of({"x"}));
  const auto checkpoint = Checkpoint::open(other);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensor_count(), 1u);
  EXPECT_TRUE(checkpoint->find("x"));
}

TEST(Open, AShardWithoutAPatternedNameLeadsToItsIndex) {
  TempFolder folder;
  const auto first = folder.write("text.safetensors", weight_file_of({"a"}));
  folder.write("vision.safetensors", weight_file_of({"b"}));
  folder.write(kIndex, index_of({{"a", "text.safetensors"}, {"b", "vision.safetensors"}}, 8));
  const auto checkpoint = Checkpoint::open(first);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensor_count(), 2u);
}

/// A model's folder in a Hugging Face cache: the snapshot's names are links to files named by hash.
void write_cache_of_shards(const TempFolder& folder) {
  folder.write("refs/main", "abc123");
  folder.write("blobs/1111", weight_file_of({"a.0", "a.1"}));
  folder.write("blobs/2222", weight_file_of({"b.0", "b.1"}));
  folder.write(
      "blobs/3333",
      index_of({{"a.0", kFirst}, {"a.1", kFirst}, {"b.0", kSecond}, {"b.1", kSecond}}, 16));
  const auto snapshot = folder / "snapshots/abc123";
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_symlink("../../blobs/1111", snapshot / kFirst);
  std::filesystem::create_symlink("../../blobs/2222", snapshot / kSecond);
  std::filesystem::create_symlink("../../blobs/3333", snapshot / kIndex);
}

TEST(Open, LinksOfACacheSnapshotKeepTheirSiblings) {
  TempFolder folder;
  write_cache_of_shards(folder);
  const auto snapshot = folder / "snapshots/abc123";
  expect_two_shards(snapshot);
  expect_two_shards(snapshot / kFirst);
  expect_two_shards(snapshot / kSecond);
  expect_two_shards(snapshot / kIndex);
  std::filesystem::remove(snapshot / kIndex);
  expect_two_shards(snapshot / kSecond);
}

TEST(Open, AModelFolderOfTheCacheStandsForItsSnapshot) {
  TempFolder folder;
  write_cache_of_shards(folder);
  expect_two_shards(folder.path());
  std::filesystem::create_directories(folder / "snapshots/older");
  expect_two_shards(folder.path());
  std::filesystem::remove(folder / "refs/main");
  expect_says(fault_of(folder.path()), {"2 snapshots", "abc123", "older"});
}

TEST(Open, ABrokenLinkIsNamed) {
  TempFolder folder;
  write_cache_of_shards(folder);
  std::filesystem::remove(folder / "blobs/2222");
  expect_says(fault_of(folder.path()), {kSecond, "link leads to no file", "download"});
}

TEST(Open, StrayFilesAreLeftAloneWithANote) {
  TempFolder folder;
  write_two_shards(folder);
  folder.write("._model-00001-of-000002.safetensors", "resource fork");
  folder.write("model-00002-of-000002.safetensors.part", "half");
  folder.write("adapter.safetensors", "not even a header");
  folder.write("README.md", "text");
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensor_count(), 4u);
  ASSERT_EQ(checkpoint->notes().size(), 1u);
  expect_says(checkpoint->notes()[0], {"3 files", "'._model-00001-of-000002.safetensors'",
                                       "'adapter.safetensors'", ".part'"});
  EXPECT_EQ(checkpoint->notes()[0].find("README"), std::string::npos);
}

TEST(Open, AnAmbiguousFolderIsRefused) {
  TempFolder folder;
  folder.write("model.safetensors", weight_file_of({"a"}));
  folder.write(kFirst, weight_file_of({"a"}));
  folder.write(kSecond, weight_file_of({"b"}));
  expect_says(fault_of(folder.path()), {"more than one model", "'model.safetensors'", kFirst});
}

TEST(Open, AFolderWithoutAModelSaysWhatIsThere) {
  TempFolder folder;
  expect_says(fault_of(folder.path()), {"no model in this folder", kIndex});
  folder.write("weights.gguf", "GGUF");
  expect_says(fault_of(folder.path()),
              {"weights.gguf: the file ends at byte 4, inside the version"});
  folder.write("adapter.safetensors", weight_file_of({"a"}));
  expect_says(fault_of(folder.path()), {"by name: 'adapter.safetensors'"});
  expect_says(fault_of(folder / "nothing"), {"nothing: no such file or folder"});
}

TEST(Open, TheFormatsOfOthersAreNamed) {
  TempFolder folder;
  expect_says(fault_of(folder.write("x.safetensors", "GGUF and so on")),
              {"x.safetensors", "give it a name that ends in .gguf"});
  expect_says(
      fault_of(folder.write("model.safetensors",
                            "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n")),
      {"Git-LFS pointer", "git lfs pull"});
  expect_says(fault_of(folder.write("pytorch_model.bin", "PK\x03\x04....")), {"PyTorch"});
  expect_says(fault_of(folder.write("page.safetensors", "<!DOCTYPE html><html>")), {"web page"});
}

TEST(Open, APipeIsRefusedAndNotWaitedFor) {
  TempFolder folder;
  ASSERT_EQ(mkfifo((folder / "model.safetensors").c_str(), 0600), 0);
  expect_says(fault_of(folder.path()), {"a pipe, expected a regular file"});
}

TEST(Open, TensorsComeFileByFileInTheOrderOfTheHeaders) {
  TempFolder folder;
  folder.write(kFirst, weight_file(R"({"z":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
                                   R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
                                   16));
  folder.write(kSecond, weight_file_of({"m"}));
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  std::vector<std::string> names;
  checkpoint->for_each([&](std::string_view name, const Tensor& tensor) {
    names.emplace_back(name);
    const auto found = checkpoint->find(name);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->offset, tensor.offset);
    EXPECT_EQ(found->file, tensor.file);
  });
  EXPECT_EQ(names, (std::vector<std::string>{"z", "a", "m"}));
  const Tensor z = *checkpoint->find("z");
  EXPECT_EQ(z.dtype, DType::bf16);
  EXPECT_EQ(to_string(z.shape), "[2, 3]");
  EXPECT_EQ(z.bytes, 12u);
  const std::uint64_t header = checkpoint->files()[0].size - 16;
  EXPECT_EQ(z.offset, header + 4);
  EXPECT_EQ(checkpoint->find("a")->bytes, 4u);
  EXPECT_EQ(to_string(checkpoint->find("a")->shape), "[]");
}

TEST(Open, WhatIsUnusualButLegalOpens) {
  TempFolder folder;
  const auto legal = [&](const std::string& header, std::size_t data, std::uint64_t tensors) {
    const auto checkpoint =
        Checkpoint::open(folder.write("model.safetensors", weight_file(header, data)));
    ASSERT_TRUE(checkpoint) << header << ": " << checkpoint.error().message;
    EXPECT_EQ(checkpoint->tensor_count(), tensors) << header;
  };
  legal(header_of({R"("__metadata__":{"format":"pt","note":""})", entry("a", 0, 4)}), 4, 1);
  // Not in the order of the offsets.
  legal(header_of({entry("b", 4, 4), entry("a", 0, 4)}), 8, 2);
  legal(header_of({entry("a", 0, 4), entry("e1", 0, 0), entry("e2", 4, 0)}), 4, 3);
  legal(R"({"e":{"dtype":"F64","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}})", 0, 1);
  legal(R"({"a":{"data_offsets":[0,4],"shape":[1],"dtype":"F32"}})", 4, 1);
  legal("{ \"a\" :\n{\"dtype\" : \"U8\" , \"shape\": [ 4 ], \"data_offsets\": [0 ,4]} }\n", 4, 1);
  legal(R"({"":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1, 1);
  legal(R"({"tab\t \"q\" \u00e9 \ud83d\ude42":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1,
        1);
}

TEST(Open, OffsetsBeyond4GiBAreExact) {
  TempFolder folder;
  constexpr std::uint64_t kFar = std::uint64_t{5} << 30;
  const std::string start = weight_file(header_of({entry("a", 0, kFar), entry("b", kFar, 4)}), 0);
  const auto path = folder.write("model.safetensors", start);
  std::filesystem::resize_file(path, start.size() + kFar + 4);  // a hole
  const auto checkpoint = Checkpoint::open(path);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->find("a")->bytes, kFar);
  EXPECT_EQ(checkpoint->find("b")->offset, start.size() + kFar);
  EXPECT_EQ(checkpoint->payload_bytes(), kFar + 4);
  std::filesystem::resize_file(path, start.size() + kFar - 1);
  expect_says(fault_of(path), {"missing 5;", "2 tensors are cut off, the first is 'a'"});
}

TEST(Open, EveryDTypeIsKnownByItsName) {
  TempFolder folder;
  for (const DType dtype : {DType::boolean, DType::u8, DType::i8, DType::f8_e4m3, DType::f8_e5m2,
                            DType::u16, DType::i16, DType::f16, DType::bf16, DType::u32, DType::i32,
                            DType::f32, DType::u64, DType::i64, DType::f64}) {
    const auto header = fmt::format(R"({{"a":{{"dtype":"{}","shape":[3],"data_offsets":[0,{}]}}}})",
                                    name_of(dtype), 3 * bytes_of(dtype));
    const auto checkpoint = Checkpoint::open(
        folder.write("model.safetensors", weight_file(header, 3 * bytes_of(dtype))));
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->find("a")->dtype, dtype);
  }
}

TEST(Open, AWrongTotalSizeIsOnlyANote) {
  TempFolder folder;
  write_two_shards(folder);
  folder.write(
      kIndex, index_of({{"b.1", kSecond}, {"a.1", kFirst}, {"b.0", kSecond}, {"a.0", kFirst}}, 17));
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  ASSERT_EQ(checkpoint->notes().size(), 1u);
  expect_says(checkpoint->notes()[0], {"total_size is 17", "16 bytes"});
}

TEST(Open, IndexesWithMoreOrLessBesideTheMapOpen) {
  TempFolder folder;
  folder.write("model.safetensors", weight_file_of({"a"}));
  for (
      const char* text :
      {R"({"weight_map":{"a":"model.safetensors"}})",
       R"({"weight_map":{"a":"model.safetensors"},"metadata":null,"x":[1.5e3,{"y":[true,false,null]}]})",
       R"({"metadata":{"total_size":4.0,"format":"pt"},"weight_map":{"a":"model.safetensors"}})",
       R"({"metadata":{"total_size":"4"},"weight_map":{"\u0061":"model.safetensors"}})"}) {
    folder.write(kIndex, text);
    const auto checkpoint = Checkpoint::open(folder.path());
    ASSERT_TRUE(checkpoint) << text << ": " << checkpoint.error().message;
    EXPECT_EQ(checkpoint->tensor_count(), 1u);
  }
}

TEST(ReadText, ReadsWhatIsSmallAndText) {
  TempFolder folder;
  EXPECT_EQ(read_text(folder.write("config.json", "{\"a\": \"\xC3\xA9\"}"), 100).value(),
            "{\"a\": \"\xC3\xA9\"}");
  EXPECT_EQ(read_text(folder.write("four", "1234"), 4).value(), "1234");
}

TEST(ReadText, RefusesTheRestWithTheFileAndTheReason) {
  TempFolder folder;
  const auto refused = [&](const std::filesystem::path& path) {
    const auto text = read_text(path, 64);
    EXPECT_FALSE(text);
    if (text) return std::string();
    EXPECT_EQ(text.error().kind, ErrorKind::model_files);
    EXPECT_NE(text.error().message.find(path.filename().string()), std::string::npos);
    return text.error().message;
  };
  expect_says(refused(folder / "missing"), {"no such file"});
  expect_says(refused(folder.write("empty", "")), {"empty"});
  expect_says(refused(folder.write("large", std::string(65, 'x'))),
              {"at most 64 bytes", "found 65"});
  expect_says(refused(folder.write("lfs", "version https://git-lfs.github.com/spec/v1\n")),
              {"git lfs pull"});
  expect_says(refused(folder.write("latin", "caf\xE9")), {"not valid UTF-8"});
  expect_says(refused(folder.path()), {"a folder"});
}

}  // namespace
}  // namespace sluice::store
