// The chat template of a model, wherever its folder keeps it.
#include "text/chat_files.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "golden.h"
#include "text/chat.h"

namespace sluice::text {
namespace {

namespace fs = std::filesystem;

/// A tiktoken tokenizer in a folder of its own.
class ChatFilesTest : public ::testing::Test {
 protected:
  ChatFilesTest() {
    std::string name = fs::temp_directory_path() / "sluice-chat-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    fs::copy_file(golden_folder() / "k2/tiktoken.model", folder_ / "tiktoken.model");
  }
  ~ChatFilesTest() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  /// The golden configuration and these members.
  void write_config(const Json& more) const {
    Json config = golden("k2/tokenizer_config.json");
    config.update(more);
    write("tokenizer_config.json", config.dump());
  }
  ChatFormat::Kind detected() const {
    return ChatFormat::detect(Tokenizer::load(folder_).value()).value().kind();
  }

  fs::path folder_;
};

TEST_F(ChatFilesTest, OfATiktokenModelTooIsTheTemplateRead) {
  write_config({{"bos_token", "[BOS]"}, {"eos_token", {{"content", "[EOS]"}}}});
  EXPECT_EQ(detected(), ChatFormat::Kind::kimi_k2);  // none there: the built-in format
  write_config({{"chat_template", "of the configuration"},
                {"bos_token", "[BOS]"},
                {"eos_token", {{"content", "[EOS]"}}}});
  EXPECT_EQ(detected(), ChatFormat::Kind::jinja);
  Tokenizer tokenizer = Tokenizer::load(folder_).value();
  EXPECT_EQ(tokenizer.chat_template(), "of the configuration");
  EXPECT_EQ(tokenizer.begin_spelling(), "[BOS]");
  EXPECT_EQ(tokenizer.end_spelling(), "[EOS]");
  write("chat_template.jinja", "of its own file");
  tokenizer = Tokenizer::load(folder_).value();
  EXPECT_EQ(tokenizer.chat_template(), "of its own file");
}

TEST_F(ChatFilesTest, ATemplateThatCannotBeReadIsRefusedAndNotReplaced) {
  write_config({{"chat_template", "of the configuration"}});
  const fs::path own = folder_ / "chat_template.jinja";
  fs::create_symlink("nowhere", own);
  for (const bool is_folder : {false, true}) {
    const auto files = read_chat_files(folder_);
    ASSERT_FALSE(files) << is_folder;
    EXPECT_EQ(files.error().kind, ErrorKind::model_files);
    EXPECT_NE(files.error().message.find("chat_template.jinja"), std::string::npos);
    EXPECT_FALSE(Tokenizer::load(folder_));
    fs::remove(own);
    fs::create_directory(own);
  }
  fs::remove(own);
  EXPECT_TRUE(read_chat_files(folder_));
}

TEST_F(ChatFilesTest, OfSeveralTemplatesTheDefaultCounts) {
  const Json named = Json::array({{{"name", "tool_use"}, {"template", "for tools"}},
                                  {{"name", "default"}, {"template", "for all"}}});
  write_config({{"chat_template", named}});
  EXPECT_EQ(read_chat_files(folder_)->chat_template, "for all");
  write_config({{"chat_template", Json::array({"odd", 1, Json::object()})}});
  EXPECT_EQ(read_chat_files(folder_)->chat_template, "");
}

TEST_F(ChatFilesTest, K3IsNeverWrittenByATemplate) {
  fs::remove(folder_ / "tiktoken.model");
  fs::copy_file(golden_folder() / "tiktoken.model", folder_ / "tiktoken.model");
  fs::copy_file(golden_folder() / "tokenizer_config.json", folder_ / "tokenizer_config.json");
  write("chat_template.jinja", "{{ messages[0].content }}");
  EXPECT_EQ(detected(), ChatFormat::Kind::kimi_k3);
}

}  // namespace
}  // namespace sluice::text
