#include "text/tokenizer_builder.h"

#include <charconv>
#include <utility>

#include "text/byte_level.h"
#include "text/utf8.h"

namespace sluice::text {
namespace {

constexpr std::size_t kMostTokens = std::size_t{1} << 22;

/// The byte that "<0x0A>" stands for.
std::optional<std::uint8_t> byte_written(std::string_view written) {
  if (written.size() != 6 || !written.starts_with("<0x") || written.back() != '>') {
    return std::nullopt;
  }
  std::uint8_t byte = 0;
  const auto [stop, error] = std::from_chars(written.data() + 3, written.data() + 5, byte, 16);
  if (error != std::errc() || stop != written.data() + 5) return std::nullopt;
  return byte;
}

/// Whether a token that a file calls text is one that only formats should write.
bool is_marker(std::string_view spelling, std::string_view chat_template) {
  if (is_blank(spelling)) return false;
  const bool has_form = (spelling.starts_with("<|") && spelling.ends_with("|>")) ||
                        (spelling.starts_with("<\uFF5C") && spelling.ends_with("\uFF5C>"));
  return has_form || chat_template.find(spelling) != std::string_view::npos;
}

}  // namespace

Status TokenizerBuilder::append(std::string_view bytes, TokenKind kind) {
  if (vocabulary_.size() >= kMostTokens || bytes.empty()) {
    return fail(ErrorKind::model_files, "{}: token {}: more than {} tokens, or one without a text",
                file_, vocabulary_.size(), kMostTokens);
  }
  if (auto status = vocabulary_.append(bytes, kind); !status) {
    return fail(ErrorKind::model_files, "{}: {}", file_, status.error().message);
  }
  return {};
}

/// Nothing if it is not written in the alphabet.
std::optional<std::string> TokenizerBuilder::bytes_of(std::string_view written) const {
  if (alphabet_ == Alphabet::bytes) return from_byte_level(written);
  return replaced(written, kSpaceSign, " ");
}

Status TokenizerBuilder::add_token(std::string_view written) {
  const auto bytes = bytes_of(written);
  if (!bytes || bytes->empty()) {
    return fail(ErrorKind::model_files,
                "{}: token {} is not written in the byte-level alphabet (token ids still work: "
                "--ids)",
                file_, vocabulary_.size());
  }
  // A space that is written as one is never in a text that the vocabulary sees.
  const bool seen = alphabet_ == Alphabet::bytes || written.find(' ') == std::string_view::npos;
  return append(*bytes, seen ? TokenKind::text : TokenKind::named);
}

Status TokenizerBuilder::add_byte(std::string_view written) {
  const auto byte = byte_written(written);
  if (!byte || alphabet_ != Alphabet::characters) {
    return fail(ErrorKind::model_files, "{}: token {} is no byte: expected <0x00> to <0xFF>", file_,
                vocabulary_.size());
  }
  unknown_.bytes[*byte] = static_cast<std::int32_t>(tokens());
  const char c = static_cast<char>(*byte);
  return append({&c, 1}, TokenKind::byte);
}

Status TokenizerBuilder::add_unknown(std::string_view spelling) {
  unknown_.unknown = static_cast<std::int32_t>(tokens());
  return add_special(spelling);
}

Status TokenizerBuilder::add_special(std::string_view spelling) {
  named_.push_back({std::string(spelling), static_cast<std::int32_t>(tokens()), true});
  return append(spelling, TokenKind::marker);
}

Status TokenizerBuilder::add_named(std::string_view spelling, bool in_vocabulary) {
  named_.push_back({std::string(spelling), static_cast<std::int32_t>(tokens()), false});
  const bool is_text = in_vocabulary && alphabet_ == Alphabet::characters;
  return append(alphabet_ == Alphabet::characters ? replaced(spelling, kSpaceSign, " ")
                                                  : std::string(spelling),
                is_text ? TokenKind::text : TokenKind::named);
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
  const auto left_bytes = bytes_of(left);
  const auto right_bytes = bytes_of(right);
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

Status TokenizerBuilder::add_scores(std::span<const float> scores) {
  if (scores.size() != tokens()) {
    return fail(ErrorKind::model_files, "{}: {} scores for {} tokens", file_, scores.size(),
                tokens());
  }
  scores_ = ScoreRanks::of(scores);
  return vocabulary_.index(file_, false);
}

Status TokenizerBuilder::index_spellings(Tokenizer& tokenizer) const {
  for (const Named& named : named_) {
    tokenizer.controls_.add(named.spelling, named.id);
    if (!named.special && !is_marker(named.spelling, tokenizer.chat_template_)) {
      tokenizer.typed_.add(named.spelling, named.id);
    }
  }
  SLUICE_TRY(tokenizer.controls_.index(file_));
  return tokenizer.typed_.index(file_);
}

Result<Tokenizer> TokenizerBuilder::finish(const PreTokenizer& pre_tokenizer, Extras extras) {
  SLUICE_ASSIGN(Splitter splitter, pre_tokenizer.kimi
                                       ? Splitter::create()
                                       : Splitter::create(pre_tokenizer.cuts, file_));
  Tokenizer tokenizer(std::move(vocabulary_), std::move(splitter));
  if (scores_) {
    tokenizer.scores_ = std::move(*scores_);
  } else {
    tokenizer.merges_ = std::move(merges_);
  }
  if (alphabet_ == Alphabet::characters) {
    unknown_.fused = extras.fused_unknown;
    tokenizer.unknown_ = unknown_;
    tokenizer.marks_spaces_ = true;
  }
  tokenizer.normalizer_ = std::move(extras.normalizer);
  tokenizer.whole_pieces_ = pre_tokenizer.whole_pieces;
  tokenizer.strips_first_space_ = extras.strips_first_space;
  tokenizer.prefix_ = std::move(extras.prefix);
  tokenizer.chat_template_ = std::move(extras.chat_template);
  tokenizer.begin_ = std::move(extras.begin);
  tokenizer.end_ = std::move(extras.end);
  SLUICE_TRY(index_spellings(tokenizer));
  return tokenizer;
}

}  // namespace sluice::text
