#include "engine/model_text.h"

#include <algorithm>
#include <limits>
#include <string>
#include <system_error>
#include <vector>

#include "store/checkpoint.h"
#include "store/pack.h"
#include "store/pack_companions.h"
#include "text/stop_ids.h"
#include "text/tokenizer_builder.h"
#include "text/tokenizer_json.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokens = "tokenizer.ggml.tokens";
constexpr const char* kTypes = "tokenizer.ggml.token_type";
constexpr const char* kMerges = "tokenizer.ggml.merges";

// Of tokenizer.ggml.token_type; all others are no text: control, unknown, user-defined, unused.
constexpr std::int64_t kNormal = 1;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// Whether the model in a folder is of GGUF files: there are some, and no others.
bool has_only_gguf(const fs::path& folder) {
  std::error_code error;
  bool found = false;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string extension = at->path().extension().string();
    if (extension == ".safetensors") return false;
    found = found || extension == ".gguf";
  }
  return found;
}

Status add_tokens(const store::Metadata& metadata, text::TokenizerBuilder& builder) {
  std::vector<bool> is_normal;
  if (metadata.has(kTypes)) {
    SLUICE_TRY(metadata.for_each_integer(kTypes, [&](std::uint64_t, std::int64_t type) -> Status {
      is_normal.push_back(type == kNormal);
      return {};
    }));
  }
  SLUICE_TRY(
      metadata.for_each_text(kTokens, [&](std::uint64_t index, std::string_view token) -> Status {
        const bool normal = index >= is_normal.size() || is_normal[index];
        return normal ? builder.add_token(token) : builder.add_special(token);
      }));
  if (!is_normal.empty() && is_normal.size() != builder.tokens()) {
    return fail(ErrorKind::model_files, "{}: {} has {} entries for {} tokens", metadata.file(),
                kTypes, is_normal.size(), builder.tokens());
  }
  return {};
}

/// The token that begins every text, if the model was made so.
Status add_prefix(const store::Metadata& metadata, std::string_view pre_tokenizer,
                  std::size_t tokens, std::vector<std::int32_t>& prefix) {
  // Of the tokenizers without the flag, those of Llama 3 want it.
  SLUICE_ASSIGN(const bool wanted,
                metadata.flag("tokenizer.ggml.add_bos_token", pre_tokenizer == "llama-bpe"));
  if (!wanted) return {};
  SLUICE_ASSIGN(const std::uint64_t id,
                metadata.count("tokenizer.ggml.bos_token_id", 0, tokens - 1));
  prefix.push_back(static_cast<std::int32_t>(id));
  return {};
}

/// The spelling of the token whose id a key has; empty without the key, or such a token.
Result<std::string> spelling_of(const store::Metadata& metadata, std::string_view key) {
  std::string spelling;
  if (!metadata.has(key)) return spelling;
  SLUICE_ASSIGN(const std::uint64_t id, metadata.count(key, 0, ~std::uint64_t{0} >> 1));
  SLUICE_TRY(
      metadata.for_each_text(kTokens, [&](std::uint64_t index, std::string_view token) -> Status {
        if (index == id) spelling = token;
        return {};
      }));
  return spelling;
}

}  // namespace

Result<text::Tokenizer> read_tokenizer(const store::Metadata& metadata) {
  SLUICE_ASSIGN(const std::string_view model, metadata.text("tokenizer.ggml.model"));
  if (model != "gpt2") {
    return fail(ErrorKind::model_files,
                "{}: the tokenizer model '{}' is not supported, only gpt2 (byte-level BPE); token "
                "ids still work: --ids",
                metadata.file(), model.substr(0, 60));
  }
  SLUICE_ASSIGN(const std::string_view name, metadata.text("tokenizer.ggml.pre", "gpt-2"));
  SLUICE_ASSIGN(const text::PreTokenizer pre_tokenizer,
                text::pre_tokenizer_named(name, metadata.file()));
  text::TokenizerBuilder builder(metadata.file());
  SLUICE_TRY(add_tokens(metadata, builder));
  std::size_t merges = 0;
  SLUICE_TRY(metadata.for_each_text(kMerges, [&](std::uint64_t, std::string_view) -> Status {
    ++merges;
    return {};
  }));
  SLUICE_TRY(builder.begin_merges(merges));
  SLUICE_TRY(metadata.for_each_text(
      kMerges, [&](std::uint64_t, std::string_view pair) { return builder.add_merge(pair); }));
  text::TokenizerBuilder::Extras extras;
  SLUICE_TRY(add_prefix(metadata, name, builder.tokens(), extras.prefix));
  SLUICE_ASSIGN(extras.begin, spelling_of(metadata, "tokenizer.ggml.bos_token_id"));
  SLUICE_ASSIGN(extras.end, spelling_of(metadata, "tokenizer.ggml.eos_token_id"));
  SLUICE_ASSIGN(extras.chat_template, metadata.text("tokenizer.chat_template", ""));
  return builder.finish(pre_tokenizer, std::move(extras));
}

Result<fs::path> text_folder(const fs::path& model) {
  SLUICE_ASSIGN(fs::path folder, store::folder_of_model(model));
  std::error_code ignored;
  const bool gguf =
      fs::is_directory(model, ignored) ? has_only_gguf(folder) : model.extension() == ".gguf";
  return gguf ? fs::path() : folder;
}

Result<text::Tokenizer> load_tokenizer(const fs::path& model) {
  SLUICE_ASSIGN(const fs::path folder, text_folder(model));
  if (folder.empty()) {
    SLUICE_ASSIGN(const store::Checkpoint checkpoint, store::Checkpoint::open(model));
    return read_tokenizer(*checkpoint.metadata());
  }
  SLUICE_ASSIGN(const auto pack, store::find_pack_index(model));
  if (pack) SLUICE_TRY(store::expect_companions_of(*pack));
  if (!is_there(folder / "tiktoken.model") && is_there(folder / "tokenizer.json")) {
    return text::load_tokenizer_json(folder);
  }
  return text::Tokenizer::load(folder);
}

Status check_text(const fs::path& model) {
  SLUICE_ASSIGN(const text::Tokenizer tokenizer, load_tokenizer(model));
  SLUICE_ASSIGN(const fs::path folder, text_folder(model));
  SLUICE_TRY(text::stop_ids(tokenizer, folder));
  return {};
}

}  // namespace sluice::engine
