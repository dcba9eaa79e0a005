// The small files of a pack: none that is not what was packed goes unnoticed.
#include "store/pack_companions.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "store/pack_files.h"

namespace sluice::store {
namespace {

namespace fs = std::filesystem;

class Companions : public ::testing::Test {
 protected:
  Companions() {
    add_companion(index_, folder_, "config.json", "{\"a\": 1}");
    add_companion(index_, folder_, "empty", "");
    add_companion(index_, folder_, "tiktoken.model", std::string(3 << 20, 't'));
    const auto stream = fill_stream(index_);
    write_pack(index_, stream, folder_);
  }

  std::vector<Error> wrong() const { return wrong_companions(index_.companions, folder_.path()); }
  void write(const std::string& name, std::string_view text) const {
    folder_.write(name, std::as_bytes(std::span(text.data(), text.size())));
  }

  PackFolder folder_;
  PackIndex index_ = small_index({0}, 4096);
};

TEST_F(Companions, Promise6AFlippedBitIsFound) {
  EXPECT_TRUE(wrong().empty());
  std::string text(3 << 20, 't');
  text[2'500'000] ^= 1;
  write("tiktoken.model", text);
  const auto errors = wrong();
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].kind, ErrorKind::model_files);
  EXPECT_NE(errors[0].message.find("tiktoken.model: damaged or changed: expected checksum"),
            std::string::npos);
  const Status status = expect_companions_of(folder_.path() / kPackIndexName);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("pack the model again"), std::string::npos);
}

TEST_F(Companions, Promise6AnythingElseInTheirPlaceIsFound) {
  write("config.json", "{\"a\": 12}");
  write("empty", "x");
  fs::remove(folder_.path() / "tiktoken.model");
  ASSERT_EQ(::mkfifo((folder_.path() / "tiktoken.model").c_str(), 0600), 0);
  const auto errors = wrong();
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_NE(errors[0].message.find("expected 8 bytes"), std::string::npos) << errors[0].message;
  EXPECT_NE(errors[1].message.find("expected 0 bytes"), std::string::npos) << errors[1].message;
  EXPECT_NE(errors[2].message.find("a pipe"), std::string::npos) << errors[2].message;
  fs::remove(folder_.path() / "tiktoken.model");
  EXPECT_NE(wrong()[2].message.find("no such file"), std::string::npos);
}

}  // namespace
}  // namespace sluice::store
