#include "engine/gguf_tokenizer.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer_builder.h"

namespace sluice::engine {
namespace {

using text::TokenizerBuilder;

constexpr const char* kModel = "tokenizer.ggml.model";
constexpr const char* kTokens = "tokenizer.ggml.tokens";
constexpr const char* kTypes = "tokenizer.ggml.token_type";
constexpr const char* kMerges = "tokenizer.ggml.merges";
constexpr const char* kScores = "tokenizer.ggml.scores";
constexpr std::uint64_t kAnyId = ~std::uint64_t{0} >> 1;

/// Of tokenizer.ggml.token_type.
enum Type : std::int64_t { normal = 1, unknown, control, user_defined, unused, byte };

/// Adds tokens as their types say. (SentencePiece's own tokens of a user may also come out of its
/// merges; those of a byte-level vocabulary are not written in its alphabet.)
Status add_token(TokenizerBuilder& builder, std::string_view token, std::int64_t type,
                 bool sentence_piece) {
  switch (type) {
    case Type::normal:
      return builder.add_token(token);
    case Type::unknown:
      return sentence_piece ? builder.add_unknown(token) : builder.add_special(token);
    case Type::user_defined:
      return builder.add_named(token, sentence_piece);
    case Type::byte:
      return sentence_piece ? builder.add_byte(token) : builder.add_token(token);
    default:
      return builder.add_special(token);
  }
}

Status add_tokens(const store::Metadata& metadata, bool sentence_piece, TokenizerBuilder& builder) {
  std::vector<std::int64_t> types;
  if (metadata.has(kTypes)) {
    SLUICE_TRY(metadata.for_each_integer(kTypes, [&](std::uint64_t, std::int64_t type) -> Status {
      types.push_back(type);
      return {};
    }));
  } else if (sentence_piece) {
    return fail(ErrorKind::model_files,
                "{}: metadata {}: missing, so bytes and markers cannot be told from text; convert "
                "the model again",
                metadata.file(), kTypes);
  }
  SLUICE_TRY(
      metadata.for_each_text(kTokens, [&](std::uint64_t index, std::string_view token) -> Status {
        return add_token(builder, token, index < types.size() ? types[index] : Type::normal,
                         sentence_piece);
      }));
  if (!types.empty() && types.size() != builder.tokens()) {
    return fail(ErrorKind::model_files, "{}: {} has {} entries for {} tokens", metadata.file(),
                kTypes, types.size(), builder.tokens());
  }
  return {};
}

Status add_merges(const store::Metadata& metadata, TokenizerBuilder& builder) {
  std::size_t merges = 0;
  SLUICE_TRY(metadata.for_each_text(kMerges, [&](std::uint64_t, std::string_view) -> Status {
    ++merges;
    return {};
  }));
  SLUICE_TRY(builder.begin_merges(merges));
  return metadata.for_each_text(
      kMerges, [&](std::uint64_t, std::string_view pair) { return builder.add_merge(pair); });
}

Status add_scores(const store::Metadata& metadata, TokenizerBuilder& builder) {
  std::vector<float> scores;
  SLUICE_TRY(metadata.for_each_number(kScores, [&](std::uint64_t index, float score) -> Status {
    if (std::isnan(score)) {
      return fail(ErrorKind::model_files, "{}: {}: the score of token {} is not a number",
                  metadata.file(), kScores, index);
    }
    scores.push_back(score);
    return {};
  }));
  return builder.add_scores(scores);
}

/// The token that begins every text, if the model was made so. `absent`: without the flag.
Status add_prefix(const store::Metadata& metadata, bool absent, std::size_t tokens,
                  std::vector<std::int32_t>& prefix) {
  SLUICE_ASSIGN(const bool wanted, metadata.flag("tokenizer.ggml.add_bos_token", absent));
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
  SLUICE_ASSIGN(const std::uint64_t id, metadata.count(key, 0, kAnyId));
  SLUICE_TRY(
      metadata.for_each_text(kTokens, [&](std::uint64_t index, std::string_view token) -> Status {
        if (index == id) spelling = token;
        return {};
      }));
  return spelling;
}

Status read_chat(const store::Metadata& metadata, TokenizerBuilder::Extras& extras) {
  SLUICE_ASSIGN(extras.begin, spelling_of(metadata, "tokenizer.ggml.bos_token_id"));
  SLUICE_ASSIGN(extras.end, spelling_of(metadata, "tokenizer.ggml.eos_token_id"));
  SLUICE_ASSIGN(extras.chat_template, metadata.text("tokenizer.chat_template", ""));
  return {};
}

Result<text::Tokenizer> read_byte_level(const store::Metadata& metadata) {
  SLUICE_ASSIGN(const std::string_view name, metadata.text("tokenizer.ggml.pre", "gpt-2"));
  SLUICE_ASSIGN(const text::PreTokenizer pre_tokenizer,
                text::pre_tokenizer_named(name, metadata.file()));
  TokenizerBuilder builder(metadata.file(), TokenizerBuilder::Alphabet::bytes);
  SLUICE_TRY(add_tokens(metadata, false, builder));
  SLUICE_TRY(add_merges(metadata, builder));
  TokenizerBuilder::Extras extras;
  // Of the tokenizers without the flag, those of Llama 3 and Mistral's want it.
  SLUICE_TRY(add_prefix(metadata, name == "llama-bpe" || name == "tekken", builder.tokens(),
                        extras.prefix));
  SLUICE_TRY(read_chat(metadata, extras));
  return builder.finish(pre_tokenizer, std::move(extras));
}

Result<text::Tokenizer> read_sentence_piece(const store::Metadata& metadata) {
  TokenizerBuilder builder(metadata.file(), TokenizerBuilder::Alphabet::characters);
  SLUICE_TRY(add_tokens(metadata, true, builder));
  SLUICE_TRY(add_scores(metadata, builder));
  TokenizerBuilder::Extras extras;
  SLUICE_TRY(add_prefix(metadata, true, builder.tokens(), extras.prefix));
  SLUICE_ASSIGN(extras.strips_first_space, metadata.flag("tokenizer.ggml.add_space_prefix", true));
  // As the original Llama code has it: behind a special token, too.
  if (extras.strips_first_space) extras.normalizer.add(text::Normalizer::Prepend{" "});
  const std::string sign(text::kSpaceSign);
  extras.normalizer.add(text::Normalizer::Replace{" ", sign});
  SLUICE_TRY(read_chat(metadata, extras));
  return builder.finish({}, std::move(extras));
}

}  // namespace

bool has_gguf_tokenizer(const store::Metadata& metadata) { return metadata.has(kModel); }

Result<text::Tokenizer> read_gguf_tokenizer(const store::Metadata& metadata) {
  SLUICE_ASSIGN(const std::string_view model, metadata.text(kModel));
  if (model == "gpt2") return read_byte_level(metadata);
  if (model == "llama") return read_sentence_piece(metadata);
  return fail(ErrorKind::model_files,
              "{}: the tokenizer model '{}' is not supported, only gpt2 (byte-level BPE) and llama "
              "(SentencePiece); token ids still work: --ids with --print-ids",
              metadata.file(), model.substr(0, 60));
}

}  // namespace sluice::engine
