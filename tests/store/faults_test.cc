// What must not open: every fault is found, named and listed, and none harms the process.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/memory_info.h"
#include "model_files.h"
#include "store/faults.h"

namespace sluice::store {
namespace {

constexpr const char* kFile = "model.safetensors";
constexpr const char* kFirstOfThree = "model-00001-of-00003.safetensors";
constexpr const char* kSecondOfThree = "model-00002-of-00003.safetensors";
constexpr const char* kThirdOfThree = "model-00003-of-00003.safetensors";

/// The message for a single file with these bytes.
std::string fault_of_bytes(std::string_view bytes) {
  TempFolder folder;
  return fault_of(folder.write(kFile, bytes));
}

/// The message for a single file with this header.
std::string fault_of_header(const std::string& header, std::size_t data_bytes) {
  return fault_of_bytes(weight_file(header, data_bytes));
}

TEST(Faults, AShortFileIsRefusedWithWhatIsMissing) {
  TempFolder folder;
  const std::string whole = weight_file_of({"a", "b"}, 1 << 20);
  for (const std::size_t cut :
       {std::size_t{1}, std::size_t{4096}, std::size_t{1} << 20, (std::size_t{1} << 20) + 1}) {
    const std::string message =
        fault_of(folder.write(kFile, std::string_view(whole).substr(0, whole.size() - cut)));
    expect_says(message,
                {std::string(kFile) + ": the file is too short",
                 fmt::format("expected {} bytes", whole.size()),
                 fmt::format("found {}", whole.size() - cut), fmt::format("missing {};", cut),
                 cut <= 1 << 20 ? "one tensor is cut off, the first is 'b'"
                                : "2 tensors are cut off, the first is 'a'"});
    EXPECT_EQ(count_of(message, "\n"), 1u) << message;
  }
}

TEST(Faults, ALongFileIsRefused) {
  expect_says(fault_of_bytes(weight_file_of({"a"}) + "xyz"), {"too long", "3 too many"});
}

TEST(Faults, FilesOfZeroToEightBytesAreRefused) {
  expect_says(fault_of_bytes(""), {"model.safetensors: the file is empty"});
  for (std::size_t size = 1; size <= 7; ++size) {
    expect_says(fault_of_bytes(std::string(size, '\0')),
                {fmt::format("at least 8 bytes (the length of the header), found {}", size)});
  }
  expect_says(fault_of_bytes(std::string(8, '\0')), {"a header of 0 bytes: expected at least 2"});
}

TEST(Faults, ALengthThatTheFileDoesNotHoldIsRefusedBeforeMemoryIsTaken) {
  const std::uint64_t peak = peak_resident_memory();
  const std::uint64_t file = 64;
  for (const std::uint64_t length :
       {file - 7, file, std::uint64_t{1} << 31, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    std::string bytes = length_bytes(length);
    bytes.resize(file, ' ');
    expect_says(fault_of_bytes(bytes), {fmt::format("given as {} bytes, but only 56", length)});
  }
  for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{1}}) {
    std::string bytes = length_bytes(length);
    bytes.resize(file, ' ');
    expect_says(fault_of_bytes(bytes), {fmt::format("a header of {} bytes", length)});
  }
  EXPECT_LT(peak_resident_memory(), peak + (std::uint64_t{64} << 20));
}

TEST(Faults, AHeaderOverTheLimitIsRefusedWithTheLimit) {
  TempFolder folder;
  const auto path = folder.write(kFile, length_bytes((std::uint64_t{512} << 20) + 8));
  std::filesystem::resize_file(path, std::uint64_t{600} << 20);  // a hole
  const std::uint64_t peak = peak_resident_memory();
  expect_says(fault_of(path), {"a header of 536870920 bytes", "at most 536870912 bytes (512 MiB"});
  EXPECT_LT(peak_resident_memory(), peak + (std::uint64_t{64} << 20));
}

TEST(Faults, ABigEndianLengthIsNamed) {
  std::string bytes = weight_file_of({"a"});
  std::reverse(bytes.begin(), bytes.begin() + 8);
  expect_says(fault_of_bytes(bytes), {"big-endian"});
}

TEST(Faults, WhatIsNoJsonObjectIsRefused) {
  std::vector<std::string> headers;
  // '@' stands for a good entry.
  for (const char* form :
       {"[@]", "\"a string\"", "12345678", "{", "{}}", "{@", "{@} x", "{@}{}", "{@,}", "{,@}",
        "{@@}", "{\"a\"}", "{\"a\":}", "{a:1}", "{@} ,", "\xEF\xBB\xBF{@}"}) {
    std::string header = form;
    while (header.find('@') != std::string::npos) {
      header.replace(header.find('@'), 1, entry("a", 0, 4));
    }
    headers.push_back(header);
  }
  for (const char* bad :
       {R"({"a":{"dtype":"U8","shape":[4,"data_offsets":[0,4]}})",
        R"({"a":{"dtype":"U8" "shape":[4],"data_offsets":[0,4]}})",
        R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]]}})",
        R"({"a":{"dtype":"U8,"shape":[4],"data_offsets":[0,4]}})",
        "{\"caf\xE9\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",  // not UTF-8
        R"({"\ud83d":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",  // half a character
        R"({"\q":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
        "{\"a\nb\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}"}) {
    headers.emplace_back(bad);
  }
  headers.push_back(header_of({entry("a", 0, 4)}) + std::string(3, '\0') + "    ");
  for (const std::string& header : headers) {
    const std::string message = fault_of_header(header, 4);
    EXPECT_TRUE(message.find("not a valid JSON object") != std::string::npos ||
                message.find("begin with '{'") != std::string::npos)
        << header << "\n"
        << message;
  }
}

TEST(Faults, DeepNestingIsRefused) {
  const std::string open(100000, '[');
  const std::string deep = open + std::string(100000, ']');
  expect_says(fault_of_header(fmt::format(R"({{"a":{}}})", deep), 0),
              {"tensor 'a': expected an object", "found a list"});
  expect_says(
      fault_of_header(
          fmt::format(R"({{"a":{{"dtype":"U8","shape":{},"data_offsets":[0,0]}}}})", deep), 0),
      {"shape: expected whole numbers"});
  expect_says(
      fault_of_header(
          fmt::format(R"({{"a":{{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":{}}}}})", deep),
          0),
      {"found 'x'"});
  expect_says(fault_of_header(fmt::format(R"({{"a":{})", open), 0), {"not a valid JSON object"});
}

struct BadEntry {
  const char* body;  ///< of tensor 'bad', in a file with 16 bytes of data
  const char* says;
};

TEST(Faults, EachRuleOfAnEntryIsChecked) {
  const std::vector<BadEntry> entries = {
      {R"({"shape":[16],"data_offsets":[0,16]})", "expected a dtype, found none"},
      {R"({"dtype":"U8","data_offsets":[0,16]})", "expected a shape, found none"},
      {R"({"dtype":"U8","shape":[16]})", "expected a data_offsets, found none"},
      {R"({})", "expected a shape, found none"},
      {R"(null)", "expected an object with dtype, shape and data_offsets, found 'null'"},
      {R"([1,2])", "found a list"},
      {R"("text")", "found the string '\"text\"'"},
      {R"({"dtype":"U8","shape":[16],"data_offsets":[0,16],"offset":3})", "found 'offset'"},
      {R"({"dtype":"U8","dtype":"I8","shape":[16],"data_offsets":[0,16]})",
       "expected one dtype, found two"},
      {R"({"dtype":"U8","shape":[16],"shape":[16],"data_offsets":[0,16]})",
       "expected one shape, found two"},
      {R"({"dtype":"F8_E8M0","shape":[16],"data_offsets":[0,16]})",
       "dtype 'F8_E8M0' is not known; expected one of BOOL, U8"},
      {R"({"dtype":"u8","shape":[16],"data_offsets":[0,16]})", "dtype 'u8' is not known"},
      {R"({"dtype":8,"shape":[16],"data_offsets":[0,16]})", "dtype: expected a string, found '8'"},
      {R"({"dtype":"U8","shape":16,"data_offsets":[0,16]})",
       "shape: expected a list of whole numbers, found '16'"},
      {R"({"dtype":"U8","shape":[-16],"data_offsets":[0,16]})",
       "shape: expected whole numbers from 0 to 2^64-1, found '-16'"},
      {R"({"dtype":"U8","shape":[16.0],"data_offsets":[0,16]})", "found '16.0'"},
      {R"({"dtype":"U8","shape":[1e1],"data_offsets":[0,16]})", "found '1e1'"},
      {R"({"dtype":"U8","shape":["16"],"data_offsets":[0,16]})", "found the string '\"16\"'"},
      {R"({"dtype":"U8","shape":[[16]],"data_offsets":[0,16]})", "found a list"},
      {R"({"dtype":"U8","shape":[true],"data_offsets":[0,16]})", "found 'true'"},
      {R"({"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,16]})",
       "found '18446744073709551616'"},
      {R"({"dtype":"U8","shape":[16,1,1,1,1,1,1,1,1],"data_offsets":[0,16]})",
       "at most 8 dimensions, found 9"},
      {R"({"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,16]})",
       "shape [4294967296, 4294967296]: the size in bytes exceeds 64 bits"},
      {R"({"dtype":"F32","shape":[4,1073741823,1073741825,4],"data_offsets":[0,16]})",
       "exceeds 64 bits"},
      {R"({"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]})", "exceeds 64 bits"},
      {R"({"dtype":"F32","shape":[16],"data_offsets":[0,16]})",
       "[0, 16]: expected 64 bytes for F32 [16], found 16"},
      {R"({"dtype":"U8","shape":[17],"data_offsets":[0,16]})",
       "expected 17 bytes for U8 [17], found 16"},
      {R"({"dtype":"U8","shape":[16],"data_offsets":[0]})",
       "expected two numbers, begin and end, found 1"},
      {R"({"dtype":"U8","shape":[16],"data_offsets":[0,8,16]})",
       "expected two numbers, begin and end, found 3"},
      {R"({"dtype":"U8","shape":[16],"data_offsets":[]})",
       "expected two numbers, begin and end, found 0"},
      {R"({"dtype":"U8","shape":[16],"data_offsets":[16,0]})",
       "expected begin <= end, found [16, 0]"},
      {R"({"dtype":"U8","shape":[16],"data_offsets":[-1,15]})",
       "data_offsets: expected whole numbers from 0 to 2^64-1, found '-1'"},
      {R"({"dtype":"U8","shape":[16],"data_offsets":["0","16"]})", "found the string '\"0\"'"},
      {R"({"dtype":"U8","shape":[16],"data_offsets":{"begin":0,"end":16}})",
       "data_offsets: expected a list"},
      {R"({"dtype":"U8","shape":[16],"data_offsets":[16,32]})", "a hole of 16 bytes at [0, 16]"},
      {R"({"dtype":"U8","shape":[16],"data_offsets":[16,32]})", "expected 32 bytes"},
      {R"({"dtype":"U8","shape":[0],"data_offsets":[17,17]})",
       "is empty, but at 17: expected at most 16"},
      {R"({"dtype":"U8","shape":[16],"data_offsets":[9223372036854775808,9223372036854775824]})",
       "a hole of 9223372036854775808"},
      {R"({"dtype":"U8","shape":[16],"data_offsets":[18446744073709551599,18446744073709551615]})",
       "expected an end of at most 16"},
  };
  for (const BadEntry& bad : entries) {
    const std::string message = fault_of_header(fmt::format(R"({{"bad":{}}})", bad.body), 16);
    std::string says = bad.says;
    // Offsets count from the end of the header, whose length depends on the entry.
    if (says == "expected 32 bytes") says = "the file is too short";
    expect_says(message, {kFile, "'bad'", says});
  }
}

TEST(Faults, OverlapsAndHolesBetweenTensorsAreFound) {
  expect_says(fault_of_header(header_of({entry("a", 0, 8), entry("b", 4, 8)}), 12),
              {"tensor 'b' at [4, 12] overlaps tensor 'a' at [0, 8]"});
  expect_says(fault_of_header(header_of({entry("b", 2, 2), entry("a", 0, 8), entry("c", 6, 2)}), 8),
              {"'b' at [2, 4] overlaps tensor 'a'", "'c' at [6, 8] overlaps tensor 'a'"});
  expect_says(fault_of_header(header_of({entry("a", 0, 8), entry("b", 12, 4)}), 16),
              {"a hole of 4 bytes at [8, 12] of the data, before tensor 'b'"});
  expect_says(fault_of_header(header_of({entry("a", 0, 8), entry("b", 0, 8)}), 8), {"overlaps"});
}

TEST(Faults, ANameTwiceIsFoundInOneFileAndAcrossFiles) {
  expect_says(fault_of_header(header_of({entry("a.7", 0, 4), entry("a.7", 4, 4)}), 8),
              {"tensor 'a.7' is in the header twice"});
  TempFolder folder;
  folder.write("model-00001-of-00002.safetensors", weight_file_of({"a", "b"}));
  folder.write("model-00002-of-00002.safetensors", weight_file_of({"c", "a"}));
  expect_says(
      fault_of(folder.path()),
      {"model-00002-of-00002.safetensors: tensor 'a' is also in model-00001-of-00002.safetensors"});
}

TEST(Faults, MetadataMustBeStrings) {
  expect_says(fault_of_header(header_of({R"("__metadata__":[])", entry("a", 0, 4)}), 4),
              {"__metadata__: expected an object, found a list"});
  expect_says(fault_of_header(header_of({R"("__metadata__":{"x":{"y":1}})", entry("a", 0, 4)}), 4),
              {"__metadata__: key 'x': expected a string, found an object"});
}

TEST(Faults, AModelWithoutTensorsIsRefused) {
  expect_says(fault_of_header("{}", 0), {"hold no tensors"});
}

TEST(Faults, AllFaultsOfAllFilesAreListedAtOnce) {
  TempFolder folder;
  const std::string good = weight_file_of({"a", "b"}, 64);
  folder.write(kFirstOfThree, std::string_view(good).substr(0, good.size() - 10));
  folder.write(
      kSecondOfThree,
      weight_file(
          R"({"c":{"dtype":"X9","shape":[4],"data_offsets":[0,4]},"d":{"dtype":"U8","shape":[3],"data_offsets":[4,8]}})",
          8));
  const std::string message = fault_of(folder.path());
  expect_says(message, {folder.path().string(), "4 faults",
                        fmt::format("{}: the file is too short", kFirstOfThree), "missing 10;",
                        fmt::format("{}: tensor 'c': dtype 'X9'", kSecondOfThree),
                        fmt::format("{}: tensor 'd'", kSecondOfThree),
                        fmt::format("{}: no such file", kThirdOfThree)});
}

TEST(Faults, ALongListIsCutWithACount) {
  std::vector<std::string> entries;
  for (int i = 0; i < 1000; ++i) entries.push_back(fmt::format(R"("t.{}":null)", i));
  const std::string message = fault_of_header(header_of(entries), 0);
  expect_says(message, {"1000 faults", "'t.49'", "... and 950 more"});
  EXPECT_EQ(count_of(message, "\n"), 51u);
}

TEST(Faults, NamesFromFilesCannotSteerATerminal) {
  const std::string message =
      fault_of_header(fmt::format(R"({{"\u001b[2J{}":null}})", std::string(5000, 'x')), 0);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  expect_says(message, {R"('\x1b[2Jxxx)", "xxx...'"});
  EXPECT_LT(message.size(), 600u);
}

TEST(Faults, ADriveThatFailsIsNotBlamedOnTheModel) {
  FaultList faults;
  faults.add("a", "is damaged");
  EXPECT_EQ(faults.to_error("m").kind, ErrorKind::model_files);
  faults.add_error({ErrorKind::drive, "b: input/output error"});
  EXPECT_EQ(faults.to_error("m").kind, ErrorKind::drive);
  expect_says(faults.to_error("m").message, {"2 faults", "b: input/output error"});
}

/// A folder with three good shards, for indexes that are not.
class IndexFaults : public testing::Test {
 protected:
  IndexFaults() {
    folder_.write(kFirstOfThree, weight_file_of({"a"}));
    folder_.write(kSecondOfThree, weight_file_of({"b"}));
    folder_.write(kThirdOfThree, weight_file_of({"c"}));
  }
  std::string fault_of_index(std::string_view text) {
    folder_.write(kIndex, text);
    return fault_of(folder_.path());
  }
  TempFolder folder_;
};

TEST_F(IndexFaults, AMissingShardIsNamed) {
  std::filesystem::remove(folder_ / kSecondOfThree);
  const std::string message = fault_of_index(index_of(
      {{"a", kFirstOfThree}, {"b", kSecondOfThree}, {"b2", kSecondOfThree}, {"c", kThirdOfThree}},
      12));
  expect_says(message, {"1 fault ", fmt::format("{}: no such file", kSecondOfThree),
                        "model.safetensors.index.json names it"});
}

TEST_F(IndexFaults, ATensorThatItsShardDoesNotHoldIsNamed) {
  expect_says(
      fault_of_index(index_of(
          {{"a", kFirstOfThree}, {"b", kSecondOfThree}, {"c", kThirdOfThree}, {"d", kThirdOfThree}},
          16)),
      {fmt::format("tensor 'd' is said to be in {}, which does not hold it", kThirdOfThree)});
  expect_says(
      fault_of_index(index_of({{"a", kFirstOfThree},
                               {"b", kThirdOfThree},
                               {"c", kThirdOfThree},
                               {"c2", kSecondOfThree}},
                              12)),
      {fmt::format("tensor 'b': expected in {}, found in {}", kThirdOfThree, kSecondOfThree)});
}

TEST_F(IndexFaults, ATensorInNoIndexIsNamed) {
  folder_.write(kThirdOfThree, weight_file_of({"c", "forgotten"}));
  expect_says(fault_of_index(index_of(
                  {{"a", kFirstOfThree}, {"b", kSecondOfThree}, {"c", kThirdOfThree}}, 12)),
              {fmt::format("{}: tensor 'forgotten' is not in model.safetensors.index.json",
                           kThirdOfThree)});
}

TEST_F(IndexFaults, ANameTwiceIsFound) {
  expect_says(
      fault_of_index(index_of(
          {{"a", kFirstOfThree}, {"b", kSecondOfThree}, {"a", kFirstOfThree}, {"c", kThirdOfThree}},
          12)),
      {"tensor 'a' is named twice"});
}

TEST_F(IndexFaults, FileNamesCannotLeaveTheFolder) {
  folder_.write("deeper/x.safetensors", weight_file_of({"x"}));
  const auto absolute = (folder_ / "deeper/x.safetensors").string();
  for (const std::string& name :
       {std::string("deeper/x.safetensors"), std::string("../x.safetensors"), absolute,
        std::string(".."), std::string("."), std::string(""),
        std::string(R"(deeper\\x.safetensors)"), std::string(R"(\u002fetc)"),
        std::string(R"(a\u0000b)"), std::string(300, 'x')}) {
    expect_says(fault_of_index(index_of({{"a", kFirstOfThree}, {"x", name}}, 8)),
                {"tensor 'x': expected the plain name of a file beside the index"});
  }
}

TEST_F(IndexFaults, WhatIsNoIndexIsRefused) {
  expect_says(fault_of_index(R"({"metadata":{}})"),
              {kIndex, "expected an object 'weight_map', found none"});
  expect_says(fault_of_index(R"({"weight_map":[]})"),
              {"weight_map: expected an object, found a list"});
  expect_says(fault_of_index(R"({"weight_map":{}})"), {"weight_map: no tensors"});
  expect_says(fault_of_index(R"({"weight_map":{"a":1}})"),
              {"tensor 'a': expected the name of a file, found '1'"});
  expect_says(fault_of_index(R"({"weight_map":{"a":"x"},"weight_map":{"a":"x"}})"),
              {"expected one 'weight_map', found two"});
  expect_says(fault_of_index(""), {kIndex, "empty"});
  expect_says(fault_of_index("version https://git-lfs.github.com/spec/v1\noid"), {"git lfs pull"});
  const std::string good =
      index_of({{"a", kFirstOfThree}, {"b", kSecondOfThree}, {"c", kThirdOfThree}}, 12);
  for (const std::string& text :
       {std::string("{"), std::string("[]"), std::string("nul"), good + "x", good + "}",
        good.substr(0, good.size() - 1), good.substr(0, good.size() / 2),
        std::string(R"({"weight_map":{"a":"x",}})"),
        std::string(R"({"x":tru,"weight_map":{"a":"x"}})"),
        std::string(R"({"x":[1 2],"weight_map":{"a":"x"}})"),
        std::string("{\"x\":\"\xFF\",\"weight_map\":{\"a\":\"x\"}}"),
        fmt::format(R"({{"x":{}{},"weight_map":{{"a":"x"}}}})", std::string(100000, '['),
                    std::string(100000, ']'))}) {
    expect_says(fault_of_index(text), {kIndex, "the index is not a valid JSON object"});
  }
}

TEST_F(IndexFaults, AMissingPartOfASetWithoutIndexIsNamed) {
  std::filesystem::remove(folder_ / kThirdOfThree);
  expect_says(fault_of(folder_.path()),
              {fmt::format("{}: no such file", kThirdOfThree), "the set needs it"});
  expect_says(fault_of(folder_ / kFirstOfThree), {fmt::format("{}: no such file", kThirdOfThree)});
}

TEST(Faults, NoSingleByteChangeOfAHeaderDoesHarm) {
  TempFolder folder;
  const std::string good = weight_file(
      R"({"__metadata__":{"format":"pt"},"a.10":{"dtype":"BF16","shape":[2,4],"data_offsets":[0,16]},"b":{"dtype":"U8","shape":[],"data_offsets":[16,17]}})",
      17);
  ASSERT_TRUE(Checkpoint::open(folder.write(kFile, good)));
  std::size_t refused = 0;
  for (std::size_t at = 0; at + 17 < good.size(); ++at) {
    for (const char byte : {'\0', '"', '{', '}', '[', ']', ',', ':', '9', '-', '\\', '\xFF', ' '}) {
      std::string bad = good;
      bad[at] = byte;
      const auto checkpoint = Checkpoint::open(folder.write(kFile, bad));
      if (checkpoint) continue;
      ++refused;
      ASSERT_EQ(checkpoint.error().kind, ErrorKind::model_files) << bad;
    }
  }
  EXPECT_GT(refused, 1000u);
}

}  // namespace
}  // namespace sluice::store
