// The index of a pack: what was encoded comes back, and nothing else is believed.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "store/pack_files.h"

namespace sluice::store {
namespace {

std::string fault_of(std::span<const std::byte> bytes) {
  FaultList faults;
  const auto index = decode_pack_index(bytes, "index", faults);
  EXPECT_EQ(index.has_value(), faults.empty());
  return faults.empty() ? "" : faults.to_error("it").message;
}

/// With the checksum at the end made right again.
std::vector<std::byte> sealed(std::vector<std::byte> bytes) {
  const std::size_t body = bytes.size() - sizeof(std::uint64_t);
  const std::uint64_t hash = checksum_of(std::span(bytes).first(body));
  std::memcpy(bytes.data() + body, &hash, sizeof(hash));
  return bytes;
}

PackIndex whole_index() {
  PackIndex index = small_index({0, 1, 0}, 4096);
  index.folders = {"/one", "/two"};
  index.companions = {{"config.json", 17, 0x1234}, {"tiktoken.model", 0, 0x5678}};
  fill_stream(index);
  return index;
}

template <class Value>
std::vector<std::byte> with(std::vector<std::byte> bytes, std::size_t at, Value value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
  return sealed(std::move(bytes));
}

TEST(PackIndex, WhatWasEncodedComesBack) {
  const PackIndex index = whole_index();
  FaultList faults;
  const auto found = decode_pack_index(encode_pack_index(index), "index", faults);
  ASSERT_TRUE(found) << faults.to_error("it").message;
  EXPECT_EQ(found->identity, 42u);
  EXPECT_EQ(found->folders, index.folders);
  EXPECT_EQ(found->deal, index.deal);
  EXPECT_EQ(found->checksums, index.checksums);
  EXPECT_EQ(found->companions, index.companions);
  EXPECT_EQ(encode_pack_index(*found), encode_pack_index(index));
}

TEST(PackIndex, TensorsLieEndToEndInTheirBlocks) {
  const PackIndex index = whole_index();
  TensorTable table;
  FaultList faults;
  ASSERT_TRUE(enter_pack_tensors(index, "index", table, faults));
  const auto at = [&](const char* name) { return table.tensor(*table.find(name)); };
  EXPECT_EQ(at("embedding.weight").offset, 0u);
  const Tensor first = at("layers.0.experts.3.w1");
  EXPECT_EQ(first.offset % kPackAlignment, 0u);
  EXPECT_EQ(first.bytes, 61u * 33);
  EXPECT_EQ(at("layers.0.experts.3.w2").offset, first.offset + first.bytes);
  EXPECT_EQ(at("head.weight").shape.sizes().size(), 2u);
  EXPECT_EQ(table.size(), index.tensors.size());
}

TEST(PackIndex, Promise6AnyCutOrFlippedByteIsFound) {
  const auto bytes = encode_pack_index(whole_index());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_NE(fault_of(std::span(bytes).first(size)), "") << size;
  }
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    auto flipped = bytes;
    flipped[at] ^= std::byte{0x10};
    ASSERT_NE(fault_of(flipped), "") << at;
  }
}

TEST(PackIndex, Promise6EachLieIsNamed) {
  const auto bytes = encode_pack_index(whole_index());
  const auto says = [&](const std::vector<std::byte>& lying, const char* what) {
    const std::string fault = fault_of(lying);
    EXPECT_NE(fault.find(what), std::string::npos) << what << " not in: " << fault;
  };
  using U32 = std::uint32_t;
  using U64 = std::uint64_t;
  says(with(bytes, 0, 'X'), "begin with");
  says(with(bytes, 8, U32{1}),
       "a pack of format 1; this program reads format 2: pack the model again");
  says(with(bytes, 8, U32{3}), "a pack of format 3; this program reads format 2: it needs a newer");
  says(with(bytes, 12, U32{0}), "0 folders");
  says(with(bytes, 12, U32{65}), "65 folders");
  says(with(bytes, 16, U32{0}), "a deal of 0");
  says(with(bytes, 20, U32{1}), "by its counts");
  says(with(bytes, 20, ~U32{0}), "by its counts");
  says(with(bytes, 24, ~U32{0}), "by its counts");
  says(with(bytes, 28, U32{7}), "by its counts");
  says(with(bytes, 28, ~U32{0}), "by its counts");
  says(with(bytes, 32, ~U64{0}), "a count of");
  says(with(bytes, 40, ~U64{0}), "a count of");
  says(with(bytes, 48, U64{1} << 61), "a count of");
  says(with(bytes, 56, U64{3}), "by its counts");
  says(with(bytes, 64, U64{0}), "chunks of 0");
  says(with(bytes, 64, U64{4097}), "chunks of 4097");
  says(with(bytes, 72, U64{4096}), "the stream is said to have 4096");
}

TEST(PackIndex, Promise6EachContradictionIsNamed) {
  const auto says = [](auto change, const char* what) {
    PackIndex index = whole_index();
    change(index);
    const std::string fault = fault_of(encode_pack_index(index));
    EXPECT_NE(fault.find(what), std::string::npos) << what << " not in: " << fault;
  };
  says([](PackIndex& index) { index.deal = {0, 2}; }, "dealt to part 3 of 2");
  says([](PackIndex& index) { index.deal = {0}; }, "dealt nothing");
  says([](PackIndex& index) { index.folders[1] = ""; }, "no name of a folder");
  says([](PackIndex& index) { index.patterns[0] = "\xC0\xC0"; }, "no pattern");
  says([](PackIndex& index) { index.patterns[0] = std::string(5, NameParts::kSlot); },
       "no pattern");
  says([](PackIndex& index) { index.patterns[0] = std::string(kMostPatternBytes + 1, 'a'); },
       "expected at most 1024");
  says([](PackIndex& index) { index.tensors[0].numbers[3] = 1; }, "a number too many");
  says([](PackIndex& index) { index.checksums.pop_back(); }, "checksums");
  for (const char* name : {"", "..", ".hidden", "a/b", "model.safetensors", "sluice-pack.index"}) {
    says([&](PackIndex& index) { index.companions[0].name = name; }, "beside the weights");
  }
  says([](PackIndex& index) { std::swap(index.companions[0], index.companions[1]); }, "in order");
  says([](PackIndex& index) { index.companions[1] = index.companions[0]; }, "in order");
  says([](PackIndex& index) { index.blocks[0].unit_rows = 3; }, "checksums");
  says([](PackIndex& index) { index.blocks[3].unit_rows = 1; }, "units of rows");
}

TEST(PackIndex, Promise6TensorsThatNoDriveHolds) {
  PackIndex index = whole_index();
  auto& shape = index.kinds[index.tensors[0].kind].shape;
  shape.size = {std::uint64_t{1} << 30, std::uint64_t{1} << 20};
  const auto bytes = encode_pack_index(index);
  EXPECT_NE(fault_of(bytes), "");
  shape.size = {std::uint64_t{1} << 40, std::uint64_t{1} << 30};
  EXPECT_NE(fault_of(encode_pack_index(index)).find("too large"), std::string::npos);
}

TEST(PackIndex, Promise6NamesTakeMemoryInProportionToTheIndex) {
  PackIndex index;
  index.chunk_bytes = 4096;
  index.deal = {0};
  index.folders = {"folder"};
  index.patterns = {std::string(kMostPatternBytes - 1, 'a') + NameParts::kSlot};
  index.kinds.push_back({DType::u8, Shape{.rank = 1}});
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    index.tensors.push_back({0, 0, {i}});
    index.blocks.push_back({1, 0, -1, -1});
  }
  const auto bytes = encode_pack_index(index);
  FaultList faults;
  auto decoded = decode_pack_index(bytes, "index", faults);
  ASSERT_TRUE(decoded) << faults.empty();
  TensorTable table;
  ASSERT_TRUE(enter_pack_tensors(*decoded, "index", table, faults));
  const Pack pack(std::move(*decoded), std::vector<ShardFile>(1));
  EXPECT_LT(table.memory_bytes(), 4 * bytes.size());
  EXPECT_LT(pack.memory_bytes(), 4 * bytes.size());
}

TEST(PackIndex, Promise6SameNameTwice) {
  PackIndex index = whole_index();
  index.tensors[1] = index.tensors[0];
  TensorTable table;
  FaultList faults;
  EXPECT_FALSE(enter_pack_tensors(index, "index", table, faults));
  EXPECT_NE(faults.to_error("it").message.find("named twice"), std::string::npos);
}

TEST(PackIndex, Promise6RandomDamageIsFoundOrHarmless) {
  const auto bytes = encode_pack_index(whole_index());
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    auto damaged = bytes;
    for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = std::byte(random());
    FaultList faults;
    auto index = decode_pack_index(sealed(std::move(damaged)), "index", faults);
    if (!index) continue;
    TensorTable table;
    if (!enter_pack_tensors(*index, "index", table, faults)) continue;
    const std::uint64_t stream = stream_bytes(*index);
    const Pack pack(std::move(*index), std::vector<ShardFile>(2));
    ASSERT_EQ(pack.stream_bytes(), stream);
    for (const std::uint64_t at : {std::uint64_t{0}, stream / 2}) {
      const auto range = pack.whole_units({at, std::min(stream, at + 1000)});
      ASSERT_LE(range.begin, at);
    }
  }
}

TEST(PackStripes, EveryByteHasOnePlaceOfItsOwn) {
  constexpr std::uint64_t kChunk = 4096;
  const std::uint64_t stream = 29 * kChunk + 1000;
  const Stripes stripes(kChunk, {0, 1, 0, 2, 0, 1}, 3);
  std::uint64_t sum = 0;
  for (std::size_t part = 0; part < 3; ++part) sum += stripes.part_bytes(part, stream);
  EXPECT_EQ(sum, stream);
  std::set<std::pair<std::uint32_t, std::uint64_t>> places;
  for (std::uint64_t at = 0; at < stream; at += 500) {
    stripes.for_each(at, 1, [&](std::uint64_t, const PartExtent& place) {
      EXPECT_LT(place.offset, stripes.part_bytes(place.part, stream));
      EXPECT_TRUE(places.emplace(place.part, place.offset).second);
      EXPECT_EQ(place.offset % kChunk, at % kChunk);
    });
  }
  std::uint64_t next = 100;
  stripes.for_each(100, stream - 100, [&](std::uint64_t at, const PartExtent& place) {
    EXPECT_EQ(at, next);
    next += place.length;
  });
  EXPECT_EQ(next, stream);
}

TEST(PackStripes, OneDriveIsOnePiece) {
  const Stripes stripes(4096, {0}, 1);
  int pieces = 0;
  stripes.for_each(5000, 1'000'000, [&](std::uint64_t at, const PartExtent& place) {
    EXPECT_EQ(at, 5000u);
    EXPECT_EQ(place.length, 1'000'000u);
    ++pieces;
  });
  EXPECT_EQ(pieces, 1);
}

TEST(PackStripes, DrivesGetWhatTheyCanDo) {
  EXPECT_EQ(deal_by_weight({1, 1, 1}).parts, (std::vector<std::uint8_t>{0, 1, 2}));
  EXPECT_EQ(deal_by_weight({2, 1}).parts.size(), 3u);
  const Deal deal = deal_by_weight({3.2e9, 0.9e9, 3.3e9});
  std::array<double, 3> chunks{};
  for (const std::uint8_t part : deal.parts) ++chunks[part];
  EXPECT_NEAR(chunks[0] / chunks[1], 3.2 / 0.9, 0.3);
  EXPECT_NEAR(chunks[2] / chunks[0], 3.3 / 3.2, 0.1);
  EXPECT_EQ(deal.parts, deal_by_weight({3.2e9, 0.9e9, 3.3e9}).parts);
}

TEST(PackStripes, ADriveThatOnlyHoldsUpTheOthersGetsNothing) {
  const Deal deal = deal_by_weight({1000, 1, 1000});
  EXPECT_EQ(deal.used, (std::vector<bool>{true, false, true}));
  EXPECT_EQ(deal.parts, (std::vector<std::uint8_t>{0, 1}));
}

/// K3: 92 layers of 896 experts of six tensors, and matrices with a checksum every 64 KiB or more.
TEST(PackIndex, K3sIndexTakesLittleMemory) {
  PackIndex index;
  index.chunk_bytes = 1 << 20;
  index.deal = {0};
  index.folders = {"/drive"};
  PackTensorMaker maker(index);
  const Shape packed{{3072, 1792}, 2};
  const Shape scales{{3072, 112}, 2};
  for (int layer = 1; layer < 93; ++layer) {
    for (int expert = 0; expert < 896; ++expert) {
      const std::string name = "model.layers." + std::to_string(layer) + ".block.experts." +
                               std::to_string(expert) + ".w";
      for (const char* part : {"1", "2", "3"}) {
        index.tensors.push_back(maker.make(name + part + ".weight_packed", DType::u8, packed));
        index.tensors.push_back(maker.make(name + part + ".weight_scale", DType::u8, scales));
      }
      index.blocks.push_back({6, 0, layer, expert});
    }
    for (int matrix = 0; matrix < 10; ++matrix) {
      const std::string name =
          "model.layers." + std::to_string(layer) + ".m" + std::to_string(matrix) + ".weight";
      index.tensors.push_back(maker.make(name, DType::bf16, Shape{{8192, 7168}, 2}));
      index.blocks.push_back({1, 4, -1, -1});
    }
  }
  index.checksums.resize(unit_count(index));
  const auto bytes = encode_pack_index(index);
  EXPECT_LT(bytes.size(), std::size_t{32} << 20);
  FaultList faults;
  auto found = decode_pack_index(bytes, "index", faults);
  ASSERT_TRUE(found);
  TensorTable table;
  ASSERT_TRUE(enter_pack_tensors(*found, "index", table, faults));
  const Pack pack(std::move(*found), {{"/drive/part", {}, 0}});
  EXPECT_LT(table.memory_bytes() + pack.memory_bytes(), std::uint64_t{48} << 20);
  EXPECT_LT(pack.memory_bytes(), std::uint64_t{24} << 20);
}

}  // namespace
}  // namespace sluice::store
