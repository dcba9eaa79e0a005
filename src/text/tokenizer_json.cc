#include "text/tokenizer_json.h"

#include <algorithm>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "text/chat_files.h"
#include "text/json_fields.h"
#include "text/small_file.h"
#include "text/tokenizer_builder.h"
#include "text/tokenizer_steps.h"

namespace sluice::text {
namespace {

// The largest in the field have some 30 MB.
constexpr std::uint64_t kTokenizerLimit = std::uint64_t{128} << 20;
constexpr std::size_t kMostIds = std::size_t{1} << 22;

using Object = nlohmann::json;

/// The vocabulary and the merges, which would take ten times their size as a tree; they are picked
/// out while the text is parsed.
struct Lists {
  std::vector<std::string> tokens;  // by id
  std::vector<std::pair<std::string, std::string>> merges;
  std::string fault;
};

class ListPicker {
 public:
  explicit ListPicker(Lists& lists) : lists_(lists) {}

  /// nlohmann's callback: false drops what was parsed. `depth` counts the objects and lists around.
  bool operator()(int depth, Object::parse_event_t event, Object& parsed) {
    using Event = Object::parse_event_t;
    if (event == Event::key && depth <= 3) {
      if (depth < 3) path_.resize(static_cast<std::size_t>(depth) - 1);
      if (depth < 3) path_.push_back(parsed.get<std::string>());
      if (depth == 3) key_ = parsed.get<std::string>();
    }
    if (path_.size() != 2 || path_[0] != "model" || depth < 3) return true;
    if (path_[1] == "vocab" && depth == 3 && event == Event::value) return take_token(parsed);
    if (path_[1] != "merges") return true;
    if (depth == 3 && event == Event::value) return take_pair(parsed);
    if (depth == 4 && event == Event::value) return take_part(parsed);
    if (depth == 3 && event == Event::array_end) return end_pair();
    return true;
  }

 private:
  bool take_token(const Object& id) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= kMostIds) {
      return fault("model.vocab: an id that is no whole number below 4,194,304");
    }
    const auto at = id.get<std::size_t>();
    if (at >= lists_.tokens.size()) lists_.tokens.resize(at + 1);
    if (!lists_.tokens[at].empty()) return fault("model.vocab: an id has two tokens");
    lists_.tokens[at] = std::move(key_);
    return false;
  }
  bool take_pair(const Object& pair) {
    if (!pair.is_string()) return fault("model.merges: expected pairs of tokens");
    const auto& text = pair.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (space == std::string::npos) return fault("model.merges: expected two tokens and a space");
    lists_.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    return false;
  }
  bool take_part(const Object& part) {
    if (!part.is_string() || parts_.size() == 2) return fault("model.merges: expected two tokens");
    parts_.push_back(part.get<std::string>());
    return false;
  }
  bool end_pair() {
    if (parts_.size() != 2) return fault("model.merges: expected two tokens");
    lists_.merges.emplace_back(std::move(parts_[0]), std::move(parts_[1]));
    parts_.clear();
    return false;
  }
  bool fault(const char* what) {
    if (lists_.fault.empty()) lists_.fault = what;
    return false;
  }

  Lists& lists_;
  std::vector<std::string> path_;
  std::string key_;
  std::vector<std::string> parts_;
};

struct AddedToken {
  std::string content;
  bool special = true;
};

/// What the model's part says beside its lists.
struct Model {
  bool ignores_merges = false;
  bool byte_fallback = false;
  bool fuses_unknown = false;
  std::string unknown;  // spelling
};

tl::unexpected<Error> refuse(std::string_view file, std::string_view what, std::string_view found) {
  return fail(ErrorKind::model_files, "{}: {}: '{}' is not supported (token ids still work: --ids)",
              file, what, found.substr(0, 60));
}

Result<Model> read_model(const Object& root, std::string_view file) {
  const Object& model = member(root, "model");
  const std::string type = text_of(model, "type", "BPE");
  if (type != "BPE") return refuse(file, "model.type", type);
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const std::string text = text_of(model, name);
    if (!text.empty()) return refuse(file, fmt::format("model.{}", name), text);
  }
  const Object& dropout = member(model, "dropout");
  if (!dropout.is_null() && dropout != 0.0) return refuse(file, "model.dropout", "a number");
  return Model{flag_of(model, "ignore_merges"), flag_of(model, "byte_fallback"),
               flag_of(model, "fuse_unk"), text_of(model, "unk_token")};
}

/// By id.
Result<std::map<std::size_t, AddedToken>> read_added_tokens(const Object& root,
                                                            std::string_view file) {
  std::map<std::size_t, AddedToken> tokens;
  for (const Object& token : member(root, "added_tokens")) {
    const Object& id = member(token, "id");
    const std::string content = text_of(token, "content");
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= kMostIds || content.empty()) {
      return fail(ErrorKind::model_files, "{}: added_tokens: an entry without id or content", file);
    }
    tokens[id.get<std::size_t>()] = {content, flag_of(token, "special", true)};
  }
  return tokens;
}

bool is_byte(std::string_view token) {
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with('>');
}

/// Tokens by ascending id; ids without a token become special ones that nothing spells.
Status add_tokens(Lists& lists, const Model& model, const std::map<std::size_t, AddedToken>& added,
                  TokenizerBuilder& builder) {
  std::size_t count = lists.tokens.size();
  if (!added.empty()) count = std::max(count, added.rbegin()->first + 1);
  for (std::size_t id = 0; id < count; ++id) {
    const auto found = added.find(id);
    const std::string_view token = id < lists.tokens.size() ? lists.tokens[id] : std::string_view();
    if (!model.unknown.empty() && token == model.unknown) {
      SLUICE_TRY(builder.add_unknown(token));
    } else if (found != added.end() && found->second.special) {
      SLUICE_TRY(builder.add_special(found->second.content));
    } else if (found != added.end()) {
      SLUICE_TRY(builder.add_named(found->second.content, !token.empty()));
    } else if (token.empty()) {
      SLUICE_TRY(builder.add_special(fmt::format("<|unused_token_{}|>", id)));
    } else if (model.byte_fallback && is_byte(token)) {
      SLUICE_TRY(builder.add_byte(token));
    } else {
      SLUICE_TRY(builder.add_token(token));
    }
  }
  lists.tokens = {};
  return {};
}

}  // namespace

Result<Tokenizer> parse_tokenizer_json(std::string_view text, ChatFiles chat,
                                       std::string_view name) {
  Lists lists;
  const Object root =
      Object::parse(text, ListPicker(lists), /*allow_exceptions=*/false, /*ignore_comments=*/false);
  if (root.is_discarded() || !root.is_object()) {
    return fail(ErrorKind::model_files, "{}: not a JSON object; download the file again", name);
  }
  if (!lists.fault.empty()) return fail(ErrorKind::model_files, "{}: {}", name, lists.fault);
  SLUICE_ASSIGN(const Model model, read_model(root, name));
  SLUICE_ASSIGN(TokenizerSteps steps, read_tokenizer_steps(root, name));
  SLUICE_ASSIGN(const auto added, read_added_tokens(root, name));
  if (model.byte_fallback && steps.byte_level) {
    return refuse(name, "model.byte_fallback", "true, in the byte-level alphabet");
  }
  using Alphabet = TokenizerBuilder::Alphabet;
  TokenizerBuilder builder(std::string(name),
                           steps.byte_level ? Alphabet::bytes : Alphabet::characters);
  SLUICE_TRY(add_tokens(lists, model, added, builder));
  SLUICE_TRY(builder.begin_merges(lists.merges.size()));
  for (const auto& [left, right] : lists.merges) SLUICE_TRY(builder.add_merge(left, right));
  TokenizerBuilder::Extras extras;
  extras.chat_template = std::move(chat.chat_template);
  extras.begin = std::move(chat.begin);
  extras.end = std::move(chat.end);
  extras.normalizer = std::move(steps.normalizer);
  extras.fused_unknown = model.fuses_unknown;
  extras.strips_first_space = steps.strips_first_space;
  for (const std::string& prefix : read_prefix(root)) {
    for (const auto& [id, token] : added) {
      if (token.content == prefix) extras.prefix.push_back(static_cast<std::int32_t>(id));
    }
  }
  PreTokenizer pre_tokenizer;
  pre_tokenizer.cuts = std::move(steps.cuts);
  pre_tokenizer.whole_pieces = model.ignores_merges;
  return builder.finish(pre_tokenizer, std::move(extras));
}

Result<Tokenizer> load_tokenizer_json(const std::filesystem::path& folder) {
  const auto path = folder / "tokenizer.json";
  SLUICE_ASSIGN(const std::string text, read_small_file(path, kTokenizerLimit));
  SLUICE_ASSIGN(ChatFiles chat, read_chat_files(folder));
  return parse_tokenizer_json(text, std::move(chat), path.native());
}

}  // namespace sluice::text
