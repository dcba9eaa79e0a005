#include "text/tokenizer.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "text/json.h"
#include "text/safety_cuts.h"
#include "text/small_file.h"
#include "text/utf8.h"

namespace sluice::text {
namespace {

// K3's are 2.8 MB and 3.5 KB.
constexpr std::uint64_t kRanksLimit = std::uint64_t{64} << 20;
constexpr std::uint64_t kConfigLimit = std::uint64_t{8} << 20;

}  // namespace

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& folder) {
  const auto ranks_path = folder / "tiktoken.model";
  const auto config_path = folder / "tokenizer_config.json";
  SLUICE_ASSIGN(const std::string config, read_small_file(config_path, kConfigLimit));
  SLUICE_ASSIGN(const std::string ranks, read_small_file(ranks_path, kRanksLimit));
  SLUICE_ASSIGN(ChatFiles chat, read_chat_files(folder));
  return parse(ranks, config, std::move(chat), ranks_path.native(), config_path.native());
}

Result<Tokenizer> Tokenizer::parse(std::string_view ranks, std::string_view config, ChatFiles chat,
                                   std::string_view ranks_name, std::string_view config_name) {
  SLUICE_ASSIGN(Vocabulary vocabulary, Vocabulary::parse(ranks, ranks_name));
  SLUICE_ASSIGN(const std::vector<std::string> specials,
                read_specials(config, config_name, vocabulary.ranks()));
  vocabulary.append_specials(specials);
  SLUICE_ASSIGN(Splitter splitter, Splitter::create());
  const std::size_t first = vocabulary.ranks();
  Tokenizer tokenizer(std::move(vocabulary), std::move(splitter));
  for (std::size_t i = 0; i < specials.size(); ++i) {
    tokenizer.controls_.add(specials[i], static_cast<std::int32_t>(first + i));
  }
  SLUICE_TRY(tokenizer.controls_.index(config_name));
  tokenizer.chat_template_ = std::move(chat.chat_template);
  tokenizer.begin_ = std::move(chat.begin);
  tokenizer.end_ = std::move(chat.end);
  return tokenizer;
}

Tokenizer::Tokenizer(Vocabulary vocabulary, Splitter splitter)
    : vocabulary_(std::move(vocabulary)), splitter_(std::move(splitter)) {}

// The spellings of the ids first .. first + kSpecials - 1.
Result<std::vector<std::string>> Tokenizer::read_specials(std::string_view config,
                                                          std::string_view file,
                                                          std::size_t first) {
  SLUICE_ASSIGN(const Json root, parse_json(config, file, ErrorKind::model_files));
  const auto named = root.is_object() ? root.find("added_tokens_decoder") : root.end();
  if (named == root.end() || !named->is_object()) {
    return fail(ErrorKind::model_files, "{}: no object \"added_tokens_decoder\"", file);
  }
  std::vector<std::string> names;
  for (std::size_t id = first; id < first + kSpecials; ++id) {
    names.push_back(fmt::format("<|reserved_token_{}|>", id));
  }
  for (const auto& [key, token] : named->items()) {
    std::size_t id = 0;
    const auto [stop, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || stop != key.data() + key.size() || id < first ||
        id - first >= kSpecials) {
      return fail(
          ErrorKind::model_files,
          "{}: added_tokens_decoder: id \"{}\" is not one of {} to {}, which follow the ranks "
          "of tiktoken.model; the two files do not belong together",
          file, key, first, first + kSpecials - 1);
    }
    const auto content = token.is_object() ? token.find("content") : token.end();
    if (content == token.end() || !content->is_string() ||
        content->get_ref<const std::string&>().empty()) {
      return fail(ErrorKind::model_files,
                  "{}: added_tokens_decoder: id {} has no \"content\" that is a string", file, id);
    }
    names[id - first] = content->get<std::string>();
  }
  return names;
}

bool Tokenizer::is_control(std::int32_t id) const {
  const std::string_view spelling = bytes_of(id);
  return !spelling.empty() && controls_.find(spelling) == id && !typed_.find(spelling);
}

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view utf8, Special special,
                                                    bool begins) const {
  if (const auto bad = first_invalid_utf8(utf8)) {
    return fail(ErrorKind::usage,
                "the text is not UTF-8: byte 0x{:02X} at offset {}; convert it first",
                static_cast<std::uint8_t>(utf8[*bad]), *bad);
  }
  std::vector<std::int32_t> ids;
  if (merges_) {
    MergeEncoder pairs(vocabulary_, *merges_, whole_pieces_, unknown_ ? &*unknown_ : nullptr);
    const auto encode_piece = [&](std::string_view piece) { pairs.encode(piece, ids); };
    SLUICE_TRY(encode_slice(utf8, special, begins, encode_piece, ids));
  } else if (scores_) {
    BytePairEncoder pairs(vocabulary_, *scores_, *unknown_);
    const auto encode_piece = [&](std::string_view piece) { pairs.encode(piece, ids); };
    SLUICE_TRY(encode_slice(utf8, special, begins, encode_piece, ids));
  } else {
    BytePairEncoder pairs(vocabulary_);
    const auto encode_piece = [&](std::string_view piece) { pairs.encode(piece, ids); };
    SafetyCuts cuts(utf8);
    while (const auto slice = cuts.next()) {
      SLUICE_TRY(encode_slice(*slice, special, begins, encode_piece, ids));
    }
  }
  return ids;
}

Result<std::vector<std::int32_t>> Tokenizer::encode_prompt(std::string_view utf8) const {
  SLUICE_ASSIGN(std::vector<std::int32_t> ids, encode(utf8, Special::as_text));
  ids.insert(ids.begin(), prefix_.begin(), prefix_.end());
  return ids;
}

std::optional<std::size_t> Tokenizer::longest_token() const {
  const std::optional<std::size_t> shrinking = normalizer_.most_shrinking();
  if (!shrinking || splitter_.may_remove()) return std::nullopt;
  if (unknown_ && unknown_->unknown >= 0 && unknown_->fused) return std::nullopt;
  std::size_t longest = 4;  // of a character that is unknown
  for (std::size_t id = 0; id < vocabulary(); ++id) {
    longest = std::max(longest, bytes_of(static_cast<std::int32_t>(id)).size());
  }
  return longest * *shrinking;
}

/// Tokens by their spelling where they may be, and what lies between them.
Status Tokenizer::encode_slice(std::string_view slice, Special special, bool begins,
                               EncodePiece encode, std::vector<std::int32_t>& ids) const {
  const Spellings& spellings = special == Special::as_control ? controls_ : typed_;
  std::size_t at = 0;
  while (const auto found = spellings.find_in(slice, at)) {
    SLUICE_TRY(encode_section(slice.substr(at, found->at - at), begins && at == 0, encode));
    ids.push_back(found->id);
    at = found->at + found->size;
  }
  return encode_section(slice.substr(at), begins && at == 0, encode);
}

Status Tokenizer::encode_section(std::string_view section, bool begins, EncodePiece encode) const {
  std::string normal;
  if (!normalizer_.does_nothing()) {
    SLUICE_ASSIGN(normal, normalizer_.apply(section, begins));
    section = normal;
  }
  SLUICE_TRY(check_covered(section));
  if (!marks_spaces_) return splitter_.split(section, encode);
  std::string spaced;
  return splitter_.split(section, [&](std::string_view piece) {
    spaced = replaced(piece, kSpaceSign, " ");
    encode(spaced);
  });
}

/// A text that the vocabulary cannot write would come out with characters missing.
Status Tokenizer::check_covered(std::string_view text) const {
  if (unknown_ && unknown_->unknown >= 0) return {};
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = unknown_ ? read_utf8(text, at).size : 1;
    const std::string_view part = text.substr(at, size);
    const bool is_space = marks_spaces_ && part == kSpaceSign;
    if (!vocabulary_.find(is_space ? " " : part) && !(unknown_ && unknown_->covers(part))) {
      return fail(ErrorKind::usage,
                  "byte 0x{:02X} at offset {} of the text: the model has no token for it; leave it "
                  "out",
                  static_cast<std::uint8_t>(part[0]), at);
    }
    at += size;
  }
  return {};
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text = joined(ids);
  if (strips_first_space_ && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

std::string Tokenizer::joined(std::span<const std::int32_t> ids) const {
  Utf8Stream stream;
  std::string text;
  for (const std::int32_t id : ids) text += stream.push(bytes_of(id));
  return text + stream.finish();
}

std::uint64_t Tokenizer::memory_bytes() const {
  return sizeof(*this) + (merges_ ? merges_->memory_bytes() : 0) + chat_template_.capacity() +
         (scores_ ? scores_->by_id.capacity() * sizeof(std::uint32_t) : 0) +
         vocabulary_.memory_bytes() + normalizer_.memory_bytes() + splitter_.memory_bytes() +
         controls_.memory_bytes() + typed_.memory_bytes();
}

}  // namespace sluice::text
