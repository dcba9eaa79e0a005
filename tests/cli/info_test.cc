// sluice info: totals, and an index in which every byte has its place.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "cli/models.h"
#include "cli/program.h"

namespace sluice::cli {
namespace {

Json info_of(const std::string& model) {
  const Finished info = run_program({"info", model, "--json"});
  EXPECT_EQ(info.exit_code, 0) << info.err;
  EXPECT_EQ(info.err, "");
  return Json::parse(info.out);
}

Json extents_of(const Json& block) {
  if (block.contains("extents")) return block.at("extents");
  return Json::array(
      {{{"file", block.at("file")}, {"offset", block.at("offset")}, {"bytes", block.at("bytes")}}});
}

TEST(Info, IsReadableForPeople) {
  const Finished info = run_program({"info", kNano, "--ram", "100M"});
  EXPECT_EQ(info.exit_code, 0) << info.err;
  for (const char* needle :
       {"kimi_k3", "routed experts", "layer trunk", "embedding", "output head", "final norms",
        "24,160,192", "4,842", "the smallest that works", "--ram 100M"}) {
    EXPECT_NE(info.out.find(needle), std::string::npos) << needle << " is not in: " << info.out;
  }
}

TEST(Info, AccountsForEveryByteOfTheModel) {
  for (const std::string& model : {kTiny, kNano}) {
    const Json info = info_of(model);
    const Json index = Json::parse(read_file(model + "/model.safetensors.index.json"));
    EXPECT_EQ(info.at("tensors"), index.at("weight_map").size());
    EXPECT_EQ(info.at("payload_bytes"), index.at("metadata").at("total_size"));
    std::uint64_t in_classes = 0;
    std::uint64_t left_out = info.at("classes").at("left_out").at("bytes");
    for (const Json& total : info.at("classes"))
      in_classes += total.at("bytes").get<std::uint64_t>();
    EXPECT_EQ(in_classes, info.at("payload_bytes"));
    std::uint64_t in_blocks = 0;
    for (const Json& block : info.at("blocks")) in_blocks += block.at("bytes").get<std::uint64_t>();
    EXPECT_EQ(in_blocks + left_out, info.at("payload_bytes"));
  }
}

TEST(Info, IndexesBlocksThatDoNotOverlap) {
  const Json info = info_of(kTiny);
  std::map<std::string, std::vector<std::pair<std::uint64_t, std::uint64_t>>> ranges;
  std::map<std::string, int> kinds;
  int id = 0;
  for (const Json& block : info.at("blocks")) {
    EXPECT_EQ(block.at("id"), id++);
    ++kinds[block.at("kind")];
    EXPECT_EQ(block.contains("expert"), block.at("kind") == "expert");
    std::uint64_t sum = 0;
    for (const Json& extent : extents_of(block)) {
      sum += extent.at("bytes").get<std::uint64_t>();
      ranges[extent.at("file")].emplace_back(extent.at("offset"), extent.at("bytes"));
    }
    EXPECT_EQ(sum, block.at("bytes"));
  }
  EXPECT_EQ(kinds["expert"], 8 * 16);
  EXPECT_EQ(kinds["trunk"], 9);
  for (const char* kind : {"embedding", "head", "final_norms"}) EXPECT_EQ(kinds[kind], 1) << kind;
  for (auto& [file, list] : ranges) {
    std::sort(list.begin(), list.end());
    for (std::size_t i = 0; i + 1 < list.size(); ++i) {
      EXPECT_LE(list[i].first + list[i].second, list[i + 1].first) << file;
    }
    EXPECT_LE(list.back().first + list.back().second, fs::file_size(file));
  }
}

TEST(Info, PointsAtTheBytesOfAnExpert) {
  const Json info = info_of(kTiny);
  const std::uint64_t expected =
      place_of(kTiny, "language_model.model.layers.3.block_sparse_moe.experts.7.w1.weight_packed")
          .offset;
  for (const Json& block : info.at("blocks")) {
    if (block.at("layer") != 3 || block.at("kind") != "expert" || block.at("expert") != 7) continue;
    const Json extents = extents_of(block);
    EXPECT_TRUE(std::any_of(extents.begin(), extents.end(), [&](const Json& extent) {
      const auto offset = extent.at("offset").get<std::uint64_t>();
      return offset <= expected && expected < offset + extent.at("bytes").get<std::uint64_t>();
    }));
    return;
  }
  FAIL() << "no such block";
}

TEST(Info, ForecastsForAContextAndSaysTheSameEveryTime) {
  const std::vector<std::string> arguments = {"info", kNano, "--ctx", "64"};
  const std::string once = run_program(arguments).out;
  EXPECT_NE(once.find("up to 64 positions (--ctx)"), std::string::npos) << once;
  EXPECT_EQ(run_program(arguments).out, once);
  std::vector<std::string> longer = arguments;
  longer.back() = "4096";
  EXPECT_NE(run_program(longer).out, once) << "the state of 4096 positions takes memory";
}

TEST(Info, ThePromisedSmallestWorks) {
#ifdef SLUICE_MEMORY_OF_OTHERS
  GTEST_SKIP() << "a sanitizer's own memory is no part of any budget";
#endif
  const Json info = info_of(kNano);
  for (const Json& memory : info.at("memory")) {
    if (!memory.at("fits").get<bool>() || !memory.at("smallest").get<bool>()) continue;
    const std::uint64_t ram = memory.at("ram_bytes");
    const auto run = [&](std::uint64_t budget) {
      return run_program({"run", kNano, "-p", "Alice", "--max-new", "1", "--ctx", "4096", "--ram",
                          std::to_string(budget)});
    };
    EXPECT_EQ(run(ram).exit_code, 0) << run(ram).err;
    EXPECT_EQ(run(ram - (3 << 20)).exit_code, 4) << "and is not far from the truth";
  }
}

TEST(Info, SaysWhatMemoryDoes) {
#ifdef SLUICE_MEMORY_OF_OTHERS
  GTEST_SKIP() << "a sanitizer's own memory is larger than the model";
#endif
  const Json info = info_of(kNano);
  const std::uint64_t all = info.at("bytes_per_token").at("all");
  std::uint64_t before = all;
  int smallest = 0;
  for (const Json& memory : info.at("memory")) {
    if (!memory.at("fits").get<bool>()) continue;
    const std::uint64_t reads = memory.at("bytes_per_token");
    EXPECT_LE(reads, before) << "more memory never reads more";
    before = reads;
    smallest += memory.at("smallest").get<bool>() ? 1 : 0;
  }
  EXPECT_EQ(smallest, 1);
  EXPECT_LT(before, all / 10) << "twice the model's size holds nearly all of it";
}

}  // namespace
}  // namespace sluice::cli
