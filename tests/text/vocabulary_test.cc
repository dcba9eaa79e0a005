#include <gtest/gtest.h>

#include <fstream>

#include "golden.h"
#include "text/byte_pairs.h"
#include "text/vocabulary.h"

namespace sluice::text {
namespace {

std::string base64(std::string_view bytes) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string code;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    unsigned bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      code += at + i <= bytes.size() ? digits[bits >> (18 - 6 * i) & 63] : '=';
    }
  }
  return code;
}

std::string rank_line(std::string_view bytes, std::size_t rank) {
  return base64(bytes) + " " + std::to_string(rank) + "\n";
}

std::string byte_lines() {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    text += rank_line({&c, 1}, static_cast<std::size_t>(byte));
  }
  return text;
}

std::string fault_of(const std::string& text) {
  const auto vocabulary = Vocabulary::parse(text, "tiktoken.model");
  if (vocabulary) return "accepted";
  EXPECT_EQ(vocabulary.error().kind, ErrorKind::model_files);
  EXPECT_EQ(vocabulary.error().message.find("tiktoken.model: "), 0u) << vocabulary.error().message;
  return vocabulary.error().message;
}

testing::AssertionResult names(const std::string& message, const std::string& part) {
  if (message.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << message << "\" does not name \"" << part << "\"";
}

TEST(Vocabulary, ReadsRanksAndFindsThemByTheirBytes) {
  const auto vocabulary =
      Vocabulary::parse(byte_lines() + rank_line("ab", 256) + "\r\n\n" + rank_line("abc", 257), "f")
          .value();
  EXPECT_EQ(vocabulary.ranks(), 258u);
  EXPECT_EQ(vocabulary.find("ab"), 256);
  EXPECT_EQ(vocabulary.find("abc"), 257);
  EXPECT_EQ(vocabulary.find("bc"), std::nullopt);
  EXPECT_EQ(vocabulary.find(""), std::nullopt);
  EXPECT_EQ(vocabulary.find(std::string(5000, 'a')), std::nullopt);
  EXPECT_EQ(vocabulary.bytes_of(257), "abc");
  EXPECT_EQ(vocabulary.byte_token('a'), 97);
}

TEST(Vocabulary, RefusesEveryKindOfDamageAndNamesTheLine) {
  const std::string good = byte_lines();
  EXPECT_EQ(fault_of(good), "accepted");
  EXPECT_TRUE(names(fault_of(""), "256 of the 256 single bytes"));
  EXPECT_TRUE(names(fault_of("version https://git-lfs.example/spec/v1\noid sha256:0\n"),
                    "Git LFS pointer"));
  EXPECT_TRUE(names(fault_of(good + "YWI=\n"), "line 257: expected base64, a space and a rank"));
  EXPECT_TRUE(names(fault_of(good + "YWI= 257\n"), "line 257: rank 257 where 256 was expected"));
  EXPECT_TRUE(names(fault_of(good + "YWI= 255\n"), "rank 255 where 256"));
  EXPECT_TRUE(names(fault_of(good + "YWI= -256\n"), "\"-256\" is not a rank"));
  EXPECT_TRUE(names(fault_of(good + "YWI= 256x\n"), "\"256x\" is not a rank"));
  EXPECT_TRUE(names(fault_of(good + "YWI= 99999999999\n"), "is not a rank"));
  EXPECT_TRUE(names(fault_of(good + "YWI=  256\n"), "is not a rank"));
  for (const char* code :
       {"YWI", "YW=I", "Y===", "YW I=", "====", "YWI\xC3\xA9", "", "=", "YWI==="}) {
    EXPECT_NE(fault_of(good + code + " 256\n"), "accepted") << code;
  }
  EXPECT_TRUE(names(fault_of(good + rank_line("a", 256)), "ranks 97 and 256 have the same bytes"));
  EXPECT_TRUE(names(fault_of(good.substr(0, good.rfind("\n", good.size() - 2) + 1)),
                    "1 of the 256 single bytes have no rank, the first is 0xFF"));
  EXPECT_TRUE(
      names(fault_of(good + rank_line(std::string(5000, 'x'), 256)), "a token of 5000 bytes"));
  EXPECT_TRUE(names(fault_of(good.substr(0, 1000)), "line"));
  EXPECT_TRUE(names(fault_of(std::string("\0\xFF\x1B[2J garbage", 13)), "line 1"));
}

TEST(Vocabulary, SurvivesEveryCutAndEveryChangedByte) {
  const std::string good = byte_lines() + rank_line("the", 256) + rank_line(" the", 257);
  for (std::size_t size = 0; size < good.size(); size += 7)
    Vocabulary::parse(good.substr(0, size), "f");
  Random random(6);
  for (int i = 0; i < 3'000; ++i) {
    std::string bad = good;
    bad[random.below(bad.size())] = static_cast<char>(random.below(256));
    const auto vocabulary = Vocabulary::parse(bad, "f");
    EXPECT_TRUE(!vocabulary || vocabulary->ranks() == 258u);
  }
}

TEST(Vocabulary, HoldsK3sNumberOfTokensInEightMegabytes) {
  std::string text = byte_lines();
  std::size_t rank = 256;
  for (; rank < 163'584; ++rank)
    text += rank_line(fmt::format("{:x}.{}", rank * 2654435761u % (1u << 28), rank), rank);
  const auto tokenizer =
      Tokenizer::parse(text, "{\"added_tokens_decoder\":{\"163584\":{\"content\":\"[BOS]\"}}}")
          .value();
  EXPECT_EQ(tokenizer.vocabulary(), 163'840u);
  EXPECT_LT(tokenizer.memory_bytes(), 8u << 20);
  EXPECT_EQ(tokenizer.special_id("[BOS]"), 163'584);
  for (std::int32_t id = 256; id < 163'584; id += 1'001) {
    EXPECT_EQ(tokenizer.encode(tokenizer.bytes_of(id), Tokenizer::Special::as_text).value().empty(),
              false);
  }
}

std::vector<std::int32_t> pairs(const Vocabulary& vocabulary, std::string_view piece) {
  std::vector<std::int32_t> ids;
  BytePairEncoder(vocabulary).encode(piece, ids);
  return ids;
}

// The rule itself, at quadratic cost.
std::vector<std::int32_t> pairs_by_rule(const Vocabulary& vocabulary, std::string_view piece) {
  if (const auto whole = vocabulary.find(piece)) return {*whole};
  std::vector<std::string> parts;
  for (const char byte : piece) parts.emplace_back(1, byte);
  while (true) {
    std::size_t best = parts.size();
    std::int32_t lowest = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto rank = vocabulary.find(parts[i] + parts[i + 1]);
      if (!rank || (best != parts.size() && *rank >= lowest)) continue;
      best = i;
      lowest = *rank;
    }
    if (best == parts.size()) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  std::vector<std::int32_t> ids;
  for (const std::string& part : parts) ids.push_back(vocabulary.find(part).value());
  return ids;
}

TEST(BytePairs, MergeTheLowestRankFirstAndTheLeftmostAmongEquals) {
  const std::string bytes = byte_lines();
  const auto late =
      Vocabulary::parse(bytes + rank_line("bc", 256) + rank_line("ab", 257), "f").value();
  EXPECT_EQ(pairs(late, "abc"), (std::vector<std::int32_t>{'a', 256}));
  const auto equal = Vocabulary::parse(bytes + rank_line("aa", 256), "f").value();
  EXPECT_EQ(pairs(equal, "aaaaa"), (std::vector<std::int32_t>{256, 256, 'a'}));
  // A whole piece is one token even where no merges lead to it.
  const auto whole = Vocabulary::parse(bytes + rank_line("xyz", 256), "f").value();
  EXPECT_EQ(pairs(whole, "xyz"), std::vector<std::int32_t>{256});
  EXPECT_EQ(pairs(whole, "xyzx").size(), 4u);
}

TEST(BytePairs, FollowTheRuleOnRandomVocabularies) {
  Random random(7);
  for (int round = 0; round < 40; ++round) {
    std::string text = byte_lines();
    std::vector<std::string> tokens;
    for (std::size_t rank = 256; rank < 256 + 30; ++rank) {
      std::string token;
      do {
        token.clear();
        for (std::size_t n = 2 + random.below(4); n > 0; --n)
          token += static_cast<char>('a' + random.below(3));
      } while (std::find(tokens.begin(), tokens.end(), token) != tokens.end());
      tokens.push_back(token);
      text += rank_line(token, rank);
    }
    const auto vocabulary = Vocabulary::parse(text, "f").value();
    for (int i = 0; i < 50; ++i) {
      std::string piece;
      for (std::size_t n = random.below(40); n > 0; --n)
        piece += static_cast<char>('a' + random.below(4));
      if (piece.empty()) continue;
      ASSERT_EQ(pairs(vocabulary, piece), pairs_by_rule(vocabulary, piece)) << piece;
    }
  }
}

class TokenizerFiles : public testing::Test {
 protected:
  TokenizerFiles() : folder_(std::filesystem::path(testing::TempDir()) / "sluice_tokenizer_files") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    write("tiktoken.model", byte_lines());
    write("tokenizer_config.json", R"({"added_tokens_decoder":{"256":{"content":"[BOS]"}}})");
  }
  ~TokenizerFiles() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  std::string fault() {
    const auto tokenizer = Tokenizer::load(folder_);
    if (tokenizer) return "accepted";
    EXPECT_EQ(tokenizer.error().kind, ErrorKind::model_files);
    return tokenizer.error().message;
  }
  std::string config_fault(const std::string& text) {
    write("tokenizer_config.json", text);
    return fault();
  }

  const std::filesystem::path folder_;
};

TEST_F(TokenizerFiles, AreReadFromTheFolder) {
  EXPECT_EQ(fault(), "accepted");
  EXPECT_EQ(Tokenizer::load(folder_)->vocabulary(), 512u);
}

TEST_F(TokenizerFiles, MissingOnesAreNamed) {
  std::filesystem::remove(folder_ / "tiktoken.model");
  EXPECT_TRUE(names(fault(), "tiktoken.model: no such file"));
  std::filesystem::remove(folder_ / "tokenizer_config.json");
  EXPECT_TRUE(names(fault(), "tokenizer_config.json: no such file"));
  std::filesystem::create_directory(folder_ / "tokenizer_config.json");
  EXPECT_TRUE(names(fault(), "not a regular file"));
}

TEST_F(TokenizerFiles, HugeOnesAreRefusedUnread) {
  std::filesystem::resize_file(folder_ / "tiktoken.model", std::uintmax_t{1} << 40);  // sparse
  EXPECT_TRUE(names(fault(), "at most 64.0 MiB are accepted"));
}

TEST_F(TokenizerFiles, FaultsOfTheConfigAreNamed) {
  EXPECT_TRUE(names(config_fault(""), "not valid JSON at byte"));
  EXPECT_TRUE(names(config_fault("[]"), "added_tokens_decoder"));
  EXPECT_TRUE(names(config_fault("{}"), "added_tokens_decoder"));
  EXPECT_TRUE(names(config_fault(R"({"added_tokens_decoder":[]})"), "added_tokens_decoder"));
  const auto with = [&](const std::string& tokens) {
    return config_fault(R"({"added_tokens_decoder":{)" + tokens + "}}");
  };
  EXPECT_EQ(with(""), "accepted");
  EXPECT_TRUE(names(with(R"("255":{"content":"x"})"), "id \"255\" is not one of 256 to 511"));
  EXPECT_TRUE(names(with(R"("512":{"content":"x"})"), "id \"512\""));
  EXPECT_TRUE(names(with(R"("-1":{"content":"x"})"), "id \"-1\""));
  EXPECT_TRUE(names(with(R"("99999999999999999999":{"content":"x"})"), "is not one of"));
  EXPECT_TRUE(names(with(R"("25six":{"content":"x"})"), "is not one of"));
  EXPECT_TRUE(names(with(R"("256":{"content":""})"), "id 256 has no \"content\""));
  EXPECT_TRUE(names(with(R"("256":{"content":7})"), "id 256 has no \"content\""));
  EXPECT_TRUE(names(with(R"("256":"x")"), "id 256 has no \"content\""));
  EXPECT_TRUE(names(with(R"("256":{"content":"x"},"300":{"content":"x"})"),
                    "256 and 300 are both spelled \"x\""));
  EXPECT_TRUE(names(with(R"("256":{"content":"<|reserved_token_300|>"})"), "256 and 300 are both"));
  EXPECT_TRUE(names(config_fault(std::string(100'000, '[')), "nested"));
}

TEST_F(TokenizerFiles, OfOneSpellingThatContinuesAnotherTheLongestCounts) {
  write(
      "tokenizer_config.json",
      R"({"added_tokens_decoder":{"256":{"content":"<a"},"257":{"content":"<a>"},"258":{"content":"a>b"}}})");
  const auto tokenizer = Tokenizer::load(folder_).value();
  EXPECT_EQ(tokenizer.encode("<a>b<ab", Tokenizer::Special::as_control).value(),
            (std::vector<std::int32_t>{257, 'b', 256, 'b'}));
}

}  // namespace
}  // namespace sluice::text
