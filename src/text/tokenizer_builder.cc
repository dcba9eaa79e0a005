#include "text/tokenizer_builder.h"

#include <utility>

#include "text/byte_level.h"

namespace sluice::text {
namespace {

constexpr std::size_t kMostTokens = std::size_t{1} << 22;

}  // namespace

Status TokenizerBuilder::add_token(std::string_view written) {
  if (vocabulary_.size() >= kMostTokens) {
    return fail(ErrorKind::model_files, "{}: more than {} tokens", file_, kMostTokens);
  }
  const auto bytes = from_byte_level(written);
  if (!bytes || bytes->empty()) {
    return fail(ErrorKind::model_files,
                "{}: token {} is not written in the byte-level alphabet; only byte-level BPE "
                "tokenizers are supported (token ids still work: --ids)",
                file_, vocabulary_.size());
  }
  if (auto status = vocabulary_.append(*bytes, true); !status) {
    return fail(ErrorKind::model_files, "{}: {}", file_, status.error().message);
  }
  return {};
}

Status TokenizerBuilder::add_special(std::string_view spelling) {
  if (vocabulary_.size() >= kMostTokens || spelling.empty()) {
    return fail(ErrorKind::model_files, "{}: token {}: more than {} tokens, or one without a text",
                file_, vocabulary_.size(), kMostTokens);
  }
  if (auto status = vocabulary_.append(spelling, false); !status) {
    return fail(ErrorKind::model_files, "{}: {}", file_, status.error().message);
  }
  return {};
}

Status TokenizerBuilder::begin_merges(std::size_t merges) {
  if (merges > kMostTokens) {
    return fail(ErrorKind::model_files, "{}: {} merges, expected at most {}", file_, merges,
                kMostTokens);
  }
  most_merges_ = merges;
  merges_.reserve(merges);
  return vocabulary_.index(file_, false);  // some vocabularies lack bytes of no text
}

Status TokenizerBuilder::add_merge(std::string_view left, std::string_view right) {
  const std::size_t number = merges_seen_++;
  const auto left_bytes = from_byte_level(left);
  const auto right_bytes = from_byte_level(right);
  if (!left_bytes || !right_bytes || number >= most_merges_) {
    return fail(ErrorKind::model_files, "{}: merge {} is not written in the byte-level alphabet",
                file_, number);
  }
  const auto left_id = vocabulary_.find(*left_bytes);
  const auto right_id = vocabulary_.find(*right_bytes);
  const auto id = vocabulary_.find(*left_bytes + *right_bytes);
  if (!left_id || !right_id || !id) {
    return fail(ErrorKind::model_files,
                "{}: merge {} is of tokens, or makes one, that the vocabulary does not have", file_,
                number);
  }
  merges_.add(*left_id, *right_id, *id);
  return {};
}

Status TokenizerBuilder::add_merge(std::string_view pair) {
  const std::size_t space = pair.find(' ');
  if (space == std::string_view::npos || pair.find(' ', space + 1) != std::string_view::npos) {
    return fail(ErrorKind::model_files, "{}: merge {}: expected two tokens with a space between",
                file_, merges_seen_);
  }
  return add_merge(pair.substr(0, space), pair.substr(space + 1));
}

Result<Tokenizer> TokenizerBuilder::finish(const PreTokenizer& pre_tokenizer, Extras extras) {
  SLUICE_ASSIGN(Splitter splitter, Splitter::create(pre_tokenizer.expressions, file_));
  Tokenizer tokenizer(std::move(vocabulary_), std::move(splitter));
  tokenizer.merges_ = std::move(merges_);
  tokenizer.whole_pieces_ = pre_tokenizer.whole_pieces;
  tokenizer.prefix_ = std::move(extras.prefix);
  tokenizer.chat_template_ = std::move(extras.chat_template);
  tokenizer.begin_ = std::move(extras.begin);
  tokenizer.end_ = std::move(extras.end);
  tokenizer.composed_ = extras.composed;
  SLUICE_TRY(tokenizer.index_specials(file_));
  return tokenizer;
}

}  // namespace sluice::text
