// The directory of names: exact, and small.
#include "store/tensor_table.h"

#include <gtest/gtest.h>

#include "model_files.h"

namespace sluice::store {
namespace {

Shape shape_of(std::uint64_t size) {
  Shape shape;
  shape.size[0] = size;
  shape.rank = 1;
  return shape;
}

TEST(TensorTable, NamesComeBackAsTheyWere) {
  const std::vector<std::string> names = {"",
                                          "0",
                                          "7",
                                          "00",
                                          "007",
                                          "4294967295",
                                          "4294967296",
                                          "99999999999999999999",
                                          "a",
                                          "a1",
                                          "a01",
                                          "a1b",
                                          "a#b",
                                          "a10",
                                          "1a",
                                          "1.2.3.4",
                                          "1.2.3.4.5.6",
                                          "1.2.3.4.05",
                                          "x1y22z333w4444v5",
                                          "-1",
                                          "w1.w2",
                                          "\xC3\xA9"
                                          "1",
                                          "layers.92.experts.895.w3.weight_scale",
                                          "layers.9.2.experts.895.w3.weight_scale"};
  TensorTable table;
  table.begin_file();
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    const auto added = table.add(names[i], DType::u8, shape_of(i), i);
    EXPECT_TRUE(added.is_new) << names[i];
    EXPECT_EQ(added.index, i);
  }
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(table.name(i), names[i]);
    ASSERT_TRUE(table.find(names[i])) << names[i];
    EXPECT_EQ(*table.find(names[i]), i);
    EXPECT_EQ(table.tensor(i).bytes, i);
    EXPECT_FALSE(table.add(names[i], DType::f32, shape_of(1), 0).is_new) << names[i];
  }
  EXPECT_EQ(table.size(), names.size());
}

TEST(TensorTable, WhatIsNotThereIsNotFound) {
  TensorTable table;
  EXPECT_FALSE(table.find("a1"));
  table.begin_file();
  table.add("a1", DType::u8, shape_of(1), 0);
  for (const char* name : {"a", "a2", "a01", "a1 ", "a11", "A1", "", "a\xFF", "a#"})
    EXPECT_FALSE(table.find(name)) << name;
}

TEST(TensorTable, KnowsTheFileOfATensorAlsoWhenFilesAreEmpty) {
  TensorTable table;
  table.begin_file();
  table.begin_file();
  const auto a = table.add("a", DType::u8, shape_of(1), 0).index;
  const auto b = table.add("b", DType::u8, shape_of(1), 0).index;
  table.begin_file();
  table.begin_file();
  const auto c = table.add("c", DType::u8, shape_of(1), 0).index;
  table.begin_file();
  EXPECT_EQ(table.file_of(a), 1u);
  EXPECT_EQ(table.file_of(b), 1u);
  EXPECT_EQ(table.file_of(c), 3u);
}

/// Shards as K3 has them, with fewer experts and of few bytes each.
std::uint64_t write_scaled_k3(const TempFolder& folder, int layers, int experts) {
  std::vector<std::pair<std::string, std::string>> lines;
  for (int layer = 0; layer < layers; ++layer) {
    const std::string file = fmt::format("model-{:05}-of-{:06}.safetensors", layer + 1, layers);
    std::vector<std::string> names;
    for (int expert = 0; expert < experts; ++expert) {
      for (const char* matrix : {"w1", "w2", "w3"}) {
        for (const char* part : {"packed", "scale"}) {
          names.push_back(
              fmt::format("language_model.model.layers.{}.block_sparse_moe.experts.{}.{}.weight_{}",
                          layer, expert, matrix, part));
          lines.emplace_back(names.back(), file);
        }
      }
    }
    folder.write(file, weight_file_of(names, 1));
  }
  folder.write("model.safetensors.index.json", index_of(lines, lines.size()));
  return lines.size();
}

TEST(TensorTable, AScaledDownK3TakesAtMost56BytesPerTensor) {
  TempFolder folder;
  const std::uint64_t tensors = write_scaled_k3(folder, 8, 224);
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensor_count(), tensors);
  EXPECT_EQ(checkpoint->payload_bytes(), tensors);
  EXPECT_LE(checkpoint->memory_bytes(), 56 * tensors);
  std::uint64_t found = 0;
  checkpoint->for_each([&](std::string_view name, const Tensor& tensor) {
    const auto same = checkpoint->find(name);
    found += same && same->file == tensor.file && same->offset == tensor.offset ? 1 : 0;
  });
  EXPECT_EQ(found, tensors);
}

}  // namespace
}  // namespace sluice::store
