// GGUF: what a sound file says, and that every fault is found, named and listed.
#include <gtest/gtest.h>

#include "gguf_files.h"
#include "model_files.h"
#include "store/gguf.h"

namespace sluice::store {
namespace {

/// A model with a matrix, a matrix of blocks and a vector.
GgufFile sound() {
  GgufFile file;
  file.text("general.architecture", "llama").u32("llama.block_count", 1);
  file.tensor("blk.0.attn_q.weight", {64, 3}, kGgmlQ4_0, 3 * 2 * 18);
  file.tensor("blk.0.attn_norm.weight", {5}, kGgmlF32, 20);
  file.tensor("blk.0.ffn_up.weight", {256, 2}, kGgmlQ4K, 288);
  return file;
}

std::string fault_of_file(const std::string& bytes) {
  TempFolder folder;
  return fault_of(folder.write("model.gguf", bytes));
}

TEST(Gguf, ASoundFileHasItsTensorsOutermostDimensionFirst) {
  for (const std::uint32_t version : {2u, 3u}) {
    TempFolder folder;
    GgufFile file = sound();
    file.version = version;
    const std::string bytes = file.bytes();
    const auto path = folder.write("model.gguf", bytes);
    for (const auto& way : {path, folder.path()}) {
      const auto checkpoint = Checkpoint::open(way);
      ASSERT_TRUE(checkpoint) << checkpoint.error().message;
      EXPECT_EQ(checkpoint->tensor_count(), 3u);
      EXPECT_EQ(checkpoint->payload_bytes(), 108u + 20 + 288);
      const auto q = checkpoint->find("blk.0.attn_q.weight");
      ASSERT_TRUE(q);
      EXPECT_EQ(q->dtype, DType::q4_0);
      EXPECT_EQ(to_string(q->shape), "[3, 64]");
      EXPECT_EQ(q->bytes, 108u);
      EXPECT_EQ(q->offset, bytes.size() - file.data.size());
      const auto up = checkpoint->find("blk.0.ffn_up.weight");
      ASSERT_TRUE(up);
      EXPECT_EQ(up->dtype, DType::q4_k);
      EXPECT_EQ(up->offset, bytes.size() - 288);
    }
  }
}

TEST(Gguf, MetadataHasItsDeclaredTypes) {
  TempFolder folder;
  GgufFile file = sound();
  file.value("a.byte", ValueType::i8, raw(std::int8_t{-5}));
  file.value("a.flag", ValueType::boolean, raw(std::uint8_t{1}));
  file.value("a.real", ValueType::f32, raw(1.5f));
  file.value("a.long", ValueType::u64, raw(~std::uint64_t{0}));
  file.value("a.words", ValueType::array,
             raw_type(ValueType::string) + raw(std::uint64_t{2}) + raw_text("x") + raw_text(""));
  file.value("a.numbers", ValueType::array,
             raw_type(ValueType::i16) + raw(std::uint64_t{2}) + raw(std::int16_t{-2}) +
                 raw(std::int16_t{7}));
  const auto checkpoint = Checkpoint::open(folder.write("model.gguf", file.bytes()));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const Metadata* const metadata = checkpoint->metadata();
  ASSERT_NE(metadata, nullptr);
  EXPECT_EQ(metadata->text("general.architecture").value(), "llama");
  EXPECT_EQ(metadata->count("llama.block_count", 0, 9).value(), 1u);
  EXPECT_EQ(metadata->count("absent", 0, 9, 4).value(), 4u);
  EXPECT_EQ(metadata->flag("a.flag", false).value(), true);
  EXPECT_EQ(metadata->number("a.real").value(), 1.5);
  std::vector<std::string> words;
  ASSERT_TRUE(metadata->for_each_text("a.words", [&](std::uint64_t, std::string_view text) {
    words.emplace_back(text);
    return Status();
  }));
  EXPECT_EQ(words, (std::vector<std::string>{"x", ""}));
  std::vector<std::int64_t> numbers;
  ASSERT_TRUE(metadata->for_each_integer("a.numbers", [&](std::uint64_t, std::int64_t number) {
    numbers.push_back(number);
    return Status();
  }));
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{-2, 7}));

  for (const auto& wrong :
       {metadata->count("a.byte", 0, 9).error(), metadata->count("a.real", 0, 9).error(),
        metadata->count("a.long", 0, 9).error(), metadata->count("llama.block_count", 2, 9).error(),
        metadata->count("absent", 0, 9).error(), metadata->number("a.flag").error(),
        metadata->text("a.byte").error(), metadata->flag("a.byte", false).error(),
        metadata->for_each_integer("a.words", [](std::uint64_t, std::int64_t) { return Status(); })
            .error()}) {
    EXPECT_EQ(wrong.kind, ErrorKind::model_files);
    EXPECT_NE(wrong.message.find("model.gguf: metadata "), std::string::npos) << wrong.message;
  }
}

TEST(Gguf, EveryCutIsRefused) {
  const std::string whole = sound().bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string message = fault_of_file(whole.substr(0, size));
    EXPECT_TRUE(message.find("the file ends at byte") != std::string::npos ||
                message.find("the file is too short") != std::string::npos ||
                message.find("more than a file of") != std::string::npos ||
                message.find("the file is empty") != std::string::npos)
        << size << ": " << message;
  }
}

TEST(Gguf, ByteSwappedAndForeignFilesAreNamed) {
  GgufFile swapped = sound();
  swapped.version = 0x03000000;
  expect_says(fault_of_file(swapped.bytes()), {"model.gguf", "big-endian"});
  GgufFile reversed = sound();
  reversed.magic = "FUGG";
  expect_says(fault_of_file(reversed.bytes()), {"big-endian"});
  GgufFile old = sound();
  old.version = 1;
  expect_says(fault_of_file(old.bytes()), {"GGUF version 1", "versions 2 and 3"});
  GgufFile newer = sound();
  newer.version = 4;
  expect_says(fault_of_file(newer.bytes()), {"GGUF version 4"});
  expect_says(fault_of_file("tjgg" + std::string(60, ' ')), {"older than GGUF"});
  expect_says(fault_of_file("version https://git-lfs.github.com/spec/v1\n"), {"git lfs pull"});
  expect_says(fault_of_file("anything else at all"), {"begins with 'GGUF', found 'anyt'"});
}

TEST(Gguf, LengthsThatTheFileDoesNotHoldAreRefused) {
  for (const std::uint64_t number :
       {std::uint64_t{1000}, std::uint64_t{1} << 40, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    std::string many_tensors = sound().bytes();
    many_tensors.replace(8, 8, raw(number));
    expect_says(fault_of_file(many_tensors), {"the number of tensors", "can hold"});
    std::string many_values = sound().bytes();
    many_values.replace(16, 8, raw(number));
    expect_says(fault_of_file(many_values), {"the number of metadata values", "can hold"});

    GgufFile array = sound();
    array.value("an.array", ValueType::array, raw_type(ValueType::f64) + raw(number));
    expect_says(fault_of_file(array.bytes()), {"metadata 'an.array'", "values"});
    GgufFile text = sound();
    text.value("a.text", ValueType::string, raw(number));
    fault_of_file(text.bytes());
    GgufFile key = sound();
    key.values.push_back(raw(number) + "key");
    expect_says(fault_of_file(key.bytes()), {"a metadata key"});
    GgufFile shape = sound();
    shape.tensor_at("wide", {number / 32 * 32, 1u << 31, 8}, kGgmlF32, 0);
    fault_of_file(shape.bytes());
    GgufFile offset = sound();
    offset.tensor_at("far", {8}, kGgmlF32, number / 32 * 32);
    fault_of_file(offset.bytes());
  }
}

TEST(Gguf, EveryFaultOfAFileIsListed) {
  GgufFile file = sound();
  file.u32("llama.block_count", 2);  // twice
  file.value("a.flag", ValueType::boolean, raw(std::uint8_t{2}));
  file.u32("general.alignment", 48);
  file.tensor_at("odd", {8}, kGgmlF32, 33);         // alignment
  file.tensor_at("blocks", {48, 2}, kGgmlQ4_0, 0);  // 48 is no multiple of 32
  file.tensor_at("type", {32}, 17, 0);              // IQ2_XS
  file.tensor_at("number", {32}, 4711, 0);
  file.tensor_at("empty", {0, 4}, kGgmlF32, 0);
  file.tensor_at("blk.0.attn_q.weight", {8}, kGgmlF32, 0);  // twice
  const std::string message = fault_of_file(file.bytes());
  expect_says(message, {"metadata key 'llama.block_count' is there twice",
                        "metadata 'a.flag': a BOOL is stored as 2", "general.alignment is 48",
                        "tensor 'odd': offset 33", "tensor 'blocks': rows of 48 elements",
                        "tensor 'type': type IQ2_XS is not supported",
                        "tensor 'number': type 4711 is not known", "tensor 'empty'",
                        "tensor 'blk.0.attn_q.weight' is in the header twice"});
  EXPECT_EQ(count_of(message, "\n"), 9u) << message;
}

TEST(Gguf, ATensorOfARankThatThereIsNotIsRefusedByName) {
  for (const std::uint32_t rank : {0u, 5u, 9u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
    for (const bool is_first : {true, false}) {
      // As many sizes as the file can hold: that it would end too early is not what is found.
      GgufFile file;
      if (!is_first) file.tensor("before", {8}, kGgmlF32, 32);
      const std::uint32_t written = std::min(rank, 9u);
      std::string entry = raw_text("odd.weight") + raw(rank);
      for (std::uint32_t d = 0; d < written; ++d) entry += raw(std::uint64_t{1});
      file.tensors.push_back(entry + raw(kGgmlF32) + raw(std::uint64_t{0}));
      file.tensor("behind", {8}, kGgmlF32, 32);
      const std::string message = fault_of_file(file.bytes());
      expect_says(message, {fmt::format("tensor 'odd.weight': {} dimensions", rank), "1 to 4"});
      EXPECT_EQ(count_of(message, "\n"), 1u) << "what follows cannot be found: " << message;
    }
  }
  for (const std::size_t rank : {1u, 2u, 3u, 4u}) {
    GgufFile file;
    file.tensor("sound", std::vector<std::uint64_t>(rank, 1), kGgmlF32, 4);
    TempFolder folder;
    const auto checkpoint = Checkpoint::open(folder.write("model.gguf", file.bytes()));
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->find("sound")->shape.rank, rank);
  }
}

TEST(Gguf, OverlapsHolesAndRestsAreRefused) {
  GgufFile overlap = sound();
  overlap.tensor_at("again", {8}, kGgmlF32, 32);
  expect_says(fault_of_file(overlap.bytes()), {"tensor 'again'", "overlaps"});
  GgufFile hole = sound();
  hole.data.resize(hole.data.size() + 64);
  hole.tensor("late", {8}, kGgmlF32, 32);
  expect_says(fault_of_file(hole.bytes()), {"a hole of", "'late'"});
  expect_says(fault_of_file(sound().bytes() + std::string(64, 'x')), {"too long"});
}

TEST(Gguf, AnAlignmentOfItsOwnIsKept) {
  TempFolder folder;
  GgufFile file;
  file.alignment = 256;
  file.u32("general.alignment", 256);
  file.tensor("a", {3}, kGgmlF32, 12).tensor("b", {1}, kGgmlF32, 4);
  const auto checkpoint = Checkpoint::open(folder.write("m.gguf", file.bytes()));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->find("a")->offset % 256, 0u);
  EXPECT_EQ(checkpoint->find("b")->offset, checkpoint->find("a")->offset + 256);
}

TEST(Gguf, TwoModelsInAFolderAreToBeChosenByName) {
  TempFolder folder;
  const auto one = folder.write("one.gguf", sound().bytes());
  folder.write("two.gguf", sound().bytes());
  expect_says(fault_of(folder.path()), {"more than one model", "'one.gguf', 'two.gguf'"});
  EXPECT_TRUE(Checkpoint::open(one));
}

TEST(Gguf, DeepArraysEnd) {
  GgufFile file = sound();
  std::string nested;
  for (int depth = 0; depth < 64; ++depth) {
    nested += raw_type(ValueType::array) + raw(std::uint64_t{1});
  }
  file.value("deep", ValueType::array, nested);
  expect_says(fault_of_file(file.bytes()), {"arrays nested more than"});
}

}  // namespace
}  // namespace sluice::store
