#include "text/tokenizer.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <utility>

#include "text/byte_pairs.h"
#include "text/compose.h"
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
  return parse(ranks, config, ranks_path.native(), config_path.native());
}

Result<Tokenizer> Tokenizer::parse(std::string_view ranks, std::string_view config,
                                   std::string_view ranks_name, std::string_view config_name) {
  SLUICE_ASSIGN(Vocabulary vocabulary, Vocabulary::parse(ranks, ranks_name));
  SLUICE_ASSIGN(const std::vector<std::string> specials,
                read_specials(config, config_name, vocabulary.ranks()));
  vocabulary.append_specials(specials);
  SLUICE_ASSIGN(Splitter splitter, Splitter::create());
  Tokenizer tokenizer(std::move(vocabulary), std::move(splitter));
  SLUICE_TRY(tokenizer.index_specials(config_name));
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

Status Tokenizer::index_specials(std::string_view file) {
  for (std::size_t id = 0; id < vocabulary_.size(); ++id) {
    if (vocabulary_.is_ordinary(static_cast<std::int32_t>(id))) continue;
    const std::string_view name = bytes_of(static_cast<std::int32_t>(id));
    specials_.push_back(static_cast<std::int32_t>(id));
    special_sizes_.push_back(name.size());
    special_starts_[static_cast<std::uint8_t>(name[0])] = true;
  }
  std::sort(special_sizes_.begin(), special_sizes_.end(), std::greater<>());
  special_sizes_.erase(std::unique(special_sizes_.begin(), special_sizes_.end()),
                       special_sizes_.end());
  const auto spelling = [&](std::int32_t id) { return bytes_of(id); };
  std::ranges::sort(specials_, {}, spelling);
  const auto twin = std::ranges::adjacent_find(specials_, {}, spelling);
  if (twin == specials_.end()) return {};
  return fail(ErrorKind::model_files, "{}: special tokens {} and {} are both spelled \"{}\"", file,
              twin[0], twin[1], bytes_of(twin[0]));
}

std::optional<std::int32_t> Tokenizer::special_id(std::string_view name) const {
  const auto at =
      std::ranges::lower_bound(specials_, name, {}, [&](std::int32_t id) { return bytes_of(id); });
  if (at == specials_.end() || bytes_of(*at) != name) return std::nullopt;
  return *at;
}

std::optional<Tokenizer::Occurrence> Tokenizer::find_special(std::string_view text,
                                                             std::size_t from) const {
  for (std::size_t at = from; at < text.size(); ++at) {
    if (!special_starts_[static_cast<std::uint8_t>(text[at])]) continue;
    for (const std::size_t size : special_sizes_) {
      if (size > text.size() - at) continue;
      if (const auto id = special_id(text.substr(at, size))) return Occurrence{at, size, *id};
    }
  }
  return std::nullopt;
}

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view utf8, Special special) const {
  if (const auto bad = first_invalid_utf8(utf8)) {
    return fail(ErrorKind::usage,
                "the text is not UTF-8: byte 0x{:02X} at offset {}; convert it first",
                static_cast<std::uint8_t>(utf8[*bad]), *bad);
  }
  if (!composed_) return encode_slices(utf8, special);
  SLUICE_ASSIGN(const std::string composed, compose(utf8));
  return encode_slices(composed, special);
}

Result<std::vector<std::int32_t>> Tokenizer::encode_prompt(std::string_view utf8) const {
  SLUICE_ASSIGN(const std::vector<std::int32_t> ids, encode(utf8, Special::as_text));
  std::vector<std::int32_t> all = prefix_;
  all.insert(all.end(), ids.begin(), ids.end());
  return all;
}

Result<std::vector<std::int32_t>> Tokenizer::encode_slices(std::string_view utf8,
                                                           Special special) const {
  std::vector<std::int32_t> ids;
  if (merges_) {
    SLUICE_TRY(check_bytes(utf8));
    MergeEncoder pairs(vocabulary_, *merges_, whole_pieces_);
    SLUICE_TRY(encode_slice(
        utf8, special,
        [&](std::string_view text) {
          return splitter_.split(text, [&](std::string_view piece) { pairs.encode(piece, ids); });
        },
        ids));
    return ids;
  }
  BytePairEncoder pairs(vocabulary_);
  SafetyCuts cuts(utf8);
  while (const auto slice = cuts.next()) {
    SLUICE_TRY(encode_slice(
        *slice, special,
        [&](std::string_view text) {
          return splitter_.split(text, [&](std::string_view piece) { pairs.encode(piece, ids); });
        },
        ids));
  }
  return ids;
}

/// A text that the vocabulary cannot write would come out with characters missing.
Status Tokenizer::check_bytes(std::string_view utf8) const {
  for (std::size_t at = 0; at < utf8.size(); ++at) {
    const auto byte = static_cast<std::uint8_t>(utf8[at]);
    if (vocabulary_.byte_token(byte) >= 0) continue;
    return fail(
        ErrorKind::usage,
        "byte 0x{:02X} at offset {} of the text: the model has no token for it; leave it out", byte,
        at);
  }
  return {};
}

/// Special tokens where they may be, and what lies between them.
Status Tokenizer::encode_slice(std::string_view slice, Special special,
                               FunctionRef<Status(std::string_view)> encode_ordinary,
                               std::vector<std::int32_t>& ids) const {
  std::size_t at = 0;
  while (special == Special::as_control) {
    const auto found = find_special(slice, at);
    if (!found) break;
    SLUICE_TRY(encode_ordinary(slice.substr(at, found->at - at)));
    ids.push_back(found->id);
    at = found->at + found->size;
  }
  return encode_ordinary(slice.substr(at));
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  Utf8Stream stream;
  std::string text;
  for (const std::int32_t id : ids) text += stream.push(bytes_of(id));
  return text + stream.finish();
}

std::uint64_t Tokenizer::memory_bytes() const {
  return sizeof(*this) + (merges_ ? merges_->memory_bytes() : 0) + chat_template_.capacity() +
         vocabulary_.memory_bytes() + splitter_.memory_bytes() +
         specials_.capacity() * sizeof(std::int32_t) +
         special_sizes_.capacity() * sizeof(std::size_t);
}

}  // namespace sluice::text
