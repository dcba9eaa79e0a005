// The journal of an unfinished pack: how it was begun is told byte for byte.
#include "engine/pack_journal.h"

#include <gtest/gtest.h>

#include <cstring>

#include "store/checksum.h"

namespace sluice::engine {
namespace {

PackPlan plan_in(const std::string& folder) {
  PackPlan plan;
  plan.model = folder + "/model";
  plan.folders = {folder, folder + "/more"};
  plan.parts = {folder};
  plan.deal = {0, 0};
  plan.chunk_bytes = 16384;
  plan.identity = 77;
  return plan;
}

void expect_told(std::span<const std::byte> journal, const PackPlan& plan) {
  const auto read = decode_journal(journal, "journal");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->plan.model, plan.model);
  EXPECT_EQ(read->plan.folders, plan.folders);
  EXPECT_EQ(read->plan.parts, plan.parts);
  EXPECT_EQ(read->plan.deal, plan.deal);
  EXPECT_EQ(read->plan.chunk_bytes, plan.chunk_bytes);
  EXPECT_EQ(read->plan.identity, plan.identity);
  EXPECT_EQ(read->valid_bytes, journal.size());
}

/// A journal's start with this text in it.
std::vector<std::byte> journal_of(const std::string& text) {
  const std::uint64_t length = text.size();
  std::string all = "SLUICEPJ" + std::string(sizeof(length), 0) + text;
  std::memcpy(all.data() + 8, &length, sizeof(length));
  const auto bytes = std::as_bytes(std::span(all));
  const std::uint64_t hash = store::checksum_of(bytes);
  std::vector<std::byte> journal(bytes.begin(), bytes.end());
  const auto end = std::as_bytes(std::span(&hash, 1));
  journal.insert(journal.end(), end.begin(), end.end());
  return journal;
}

std::string text_with(const std::string& folder, const std::string& more) {
  return R"({"model":")" + folder + R"(/model","folders":[")" + folder + R"(",")" + folder +
         R"(/more"],"parts":[")" + folder + R"("],"deal":[0,0],"chunk_bytes":16384,"identity":77)" +
         more + "}";
}

TEST(PackJournal, KeepsEveryByteThatAPathCanHave) {
  std::string folder = "/";
  for (int byte = 1; byte < 256; ++byte) {
    if (byte != '/') folder += static_cast<char>(byte);
  }
  for (const std::string& each : {folder, std::string("/a%41%"), std::string("/pack")}) {
    const PackPlan plan = plan_in(each);
    expect_told(encode_plan(plan), plan);
  }
}

TEST(PackJournal, AnEarlierOneHasItsPathsAsTheyAre) {
  expect_told(journal_of(text_with("/a%41 b", "")), plan_in("/a%41 b"));
}

TEST(PackJournal, APathThatIsNotEscapedRightIsRefused) {
  expect_told(journal_of(text_with("/a%41", R"(,"escaped":true)")), plan_in("/aA"));
  for (const char* wrong : {"/a%4", "/a%4G", "/a%-1", "/a%"}) {
    const auto refused =
        decode_journal(journal_of(text_with(wrong, R"(,"escaped":true)")), "journal");
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().kind, ErrorKind::model_files);
  }
  EXPECT_FALSE(decode_journal(journal_of(text_with("/a", R"(,"escaped":"yes")")), "journal"));
}

}  // namespace
}  // namespace sluice::engine
