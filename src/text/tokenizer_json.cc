#include "text/tokenizer_json.h"

#include <algorithm>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "text/json.h"
#include "text/small_file.h"
#include "text/tokenizer_builder.h"

namespace sluice::text {
namespace {

// The largest in the field have some 30 MB.
constexpr std::uint64_t kTokenizerLimit = std::uint64_t{128} << 20;
constexpr std::uint64_t kConfigLimit = std::uint64_t{8} << 20;
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
  std::int32_t id;
  std::string content;
};

/// Reads what the tree has; the first fault ends it.
class Reader {
 public:
  Reader(const Object& root, std::string_view file) : root_(root), file_(file) {}

  Status check_model() const {
    const Object& model = member(root_, "model");
    const std::string type = text_of(model, "type", "BPE");
    if (type != "BPE") return refuse("model.type", type);
    for (const char* name : {"byte_fallback", "fuse_unk"}) {
      if (flag_of(model, name)) return refuse(fmt::format("model.{}", name), "true");
    }
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const std::string text = text_of(model, name, "");
      if (!text.empty()) return refuse(fmt::format("model.{}", name), text);
    }
    const Object& dropout = member(model, "dropout");
    if (!dropout.is_null() && dropout != 0.0) return refuse("model.dropout", "a number");
    return {};
  }

  bool ignores_merges() const { return flag_of(member(root_, "model"), "ignore_merges"); }

  /// Whether texts are composed first.
  Result<bool> normalizes() const {
    const Object& normalizer = member(root_, "normalizer");
    if (normalizer.is_null()) return false;
    const std::string type = text_of(normalizer, "type", "");
    if (type == "NFC") return true;
    if (type == "Sequence" && member(normalizer, "normalizers").empty()) return false;
    return refuse("normalizer", type);
  }

  Result<std::vector<std::string>> expressions() const {
    std::vector<std::string> all;
    bool byte_level = false;
    const Object& root = member(root_, "pre_tokenizer");
    const std::string type = text_of(root, "type", "");
    const Object list = type == "Sequence" ? member(root, "pretokenizers") : Object::array({root});
    for (const Object& each : list) SLUICE_TRY(add_expression(each, all, byte_level));
    if (!byte_level) return refuse("pre_tokenizer", "one without ByteLevel");
    return all;
  }

  Result<std::vector<AddedToken>> added_tokens() const {
    std::vector<AddedToken> tokens;
    for (const Object& token : member(root_, "added_tokens")) {
      const Object& id = member(token, "id");
      const std::string content = text_of(token, "content", "");
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= kMostIds || content.empty()) {
        return fail(ErrorKind::model_files, "{}: added_tokens: an entry without id or content",
                    file_);
      }
      tokens.push_back({id.get<std::int32_t>(), content});
    }
    return tokens;
  }

  /// Tokens that the post-processor puts before a text.
  std::vector<std::string> prefix() const {
    std::vector<std::string> names;
    const Object& root = member(root_, "post_processor");
    const bool many = text_of(root, "type", "") == "Sequence";
    const Object list = many ? member(root, "processors") : Object::array({root});
    for (const Object& each : list) {
      if (text_of(each, "type", "") != "TemplateProcessing") continue;
      for (const Object& piece : member(each, "single")) {
        const Object& special = member(piece, "SpecialToken");
        if (special.is_null()) break;  // the text itself
        names.push_back(text_of(special, "id", ""));
      }
    }
    return names;
  }

 private:
  static const Object& member(const Object& object, const char* name) {
    static const Object kNull;
    if (!object.is_object()) return kNull;
    const auto found = object.find(name);
    return found == object.end() ? kNull : *found;
  }
  static std::string text_of(const Object& object, const char* name, std::string absent) {
    const Object& value = member(object, name);
    return value.is_string() ? value.get<std::string>() : absent;
  }
  static bool flag_of(const Object& object, const char* name) {
    const Object& value = member(object, name);
    return value.is_boolean() && value.get<bool>();
  }

  tl::unexpected<Error> refuse(std::string_view what, std::string_view found) const {
    return fail(
        ErrorKind::model_files,
        "{}: {}: '{}' is not supported; only byte-level BPE tokenizers are (token ids still "
        "work: --ids)",
        file_, what, found.substr(0, 60));
  }

  Status add_expression(const Object& each, std::vector<std::string>& all, bool& byte_level) const {
    const std::string type = text_of(each, "type", "");
    if (type == "ByteLevel") {
      byte_level = true;
      if (flag_of(each, "add_prefix_space")) return refuse("pre_tokenizer", "add_prefix_space");
      // Without the field: true.
      if (!member(each, "use_regex").is_boolean() || flag_of(each, "use_regex")) {
        all.emplace_back(kGpt2Expression);
      }
      return {};
    }
    if (type == "Digits") {
      all.emplace_back(flag_of(each, "individual_digits") ? R"(\p{N})" : R"(\p{N}+)");
      return {};
    }
    if (type != "Split") return refuse("pre_tokenizer", type);
    const std::string expression = text_of(member(each, "pattern"), "Regex", "");
    if (expression.empty() || flag_of(each, "invert") ||
        text_of(each, "behavior", "") != "Isolated") {
      return refuse("pre_tokenizer", "a Split that is not by a Regex, Isolated");
    }
    all.push_back(expression);
    return {};
  }

  const Object& root_;
  std::string_view file_;
};

/// Tokens by ascending id; ids without a token become special ones that nothing spells.
Status add_tokens(Lists& lists, const std::vector<AddedToken>& added, TokenizerBuilder& builder) {
  std::map<std::int32_t, const std::string*> special;
  for (const AddedToken& token : added) special[token.id] = &token.content;
  std::size_t count = lists.tokens.size();
  if (!special.empty()) {
    count = std::max(count, static_cast<std::size_t>(special.rbegin()->first) + 1);
  }
  for (std::size_t id = 0; id < count; ++id) {
    const auto found = special.find(static_cast<std::int32_t>(id));
    if (found != special.end()) {
      SLUICE_TRY(builder.add_special(*found->second));
    } else if (id < lists.tokens.size() && !lists.tokens[id].empty()) {
      SLUICE_TRY(builder.add_token(lists.tokens[id]));
    } else {
      SLUICE_TRY(builder.add_special(fmt::format("<|unused_token_{}|>", id)));
    }
  }
  lists.tokens = {};
  return {};
}

/// A token of tokenizer_config.json: a string, or an object with its content.
std::string token_of(const Json& config, const char* name) {
  const auto found = config.find(name);
  if (found == config.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  const auto content = found->is_object() ? found->find("content") : found->end();
  return found->is_object() && content != found->end() && content->is_string()
             ? content->get<std::string>()
             : "";
}

}  // namespace

ChatFiles read_chat_files(const std::filesystem::path& folder) {
  ChatFiles files;
  const auto path = folder / "tokenizer_config.json";
  if (const auto text = read_small_file(path, kConfigLimit)) {
    const auto root = parse_json(*text, path.native(), ErrorKind::model_files);
    if (root && root->is_object()) {
      files.chat_template = token_of(*root, "chat_template");
      files.begin = token_of(*root, "bos_token");
      files.end = token_of(*root, "eos_token");
    }
  }
  if (auto text = read_small_file(folder / "chat_template.jinja", kConfigLimit)) {
    files.chat_template = std::move(*text);
  }
  return files;
}

Result<Tokenizer> parse_tokenizer_json(std::string_view text, ChatFiles chat,
                                       std::string_view name) {
  Lists lists;
  const Object root =
      Object::parse(text, ListPicker(lists), /*allow_exceptions=*/false, /*ignore_comments=*/false);
  if (root.is_discarded() || !root.is_object()) {
    return fail(ErrorKind::model_files, "{}: not a JSON object; download the file again", name);
  }
  if (!lists.fault.empty()) return fail(ErrorKind::model_files, "{}: {}", name, lists.fault);
  const Reader reader(root, name);
  SLUICE_TRY(reader.check_model());
  TokenizerBuilder::Extras extras;
  extras.chat_template = std::move(chat.chat_template);
  extras.begin = std::move(chat.begin);
  extras.end = std::move(chat.end);
  SLUICE_ASSIGN(extras.composed, reader.normalizes());
  PreTokenizer pre_tokenizer;
  SLUICE_ASSIGN(pre_tokenizer.expressions, reader.expressions());
  pre_tokenizer.whole_pieces = reader.ignores_merges();
  SLUICE_ASSIGN(const std::vector<AddedToken> added, reader.added_tokens());
  TokenizerBuilder builder{std::string(name)};
  SLUICE_TRY(add_tokens(lists, added, builder));
  SLUICE_TRY(builder.begin_merges(lists.merges.size()));
  for (const auto& [left, right] : lists.merges) SLUICE_TRY(builder.add_merge(left, right));
  for (const std::string& prefix : reader.prefix()) {
    const auto token = std::ranges::find(added, prefix, &AddedToken::content);
    if (token != added.end()) extras.prefix.push_back(token->id);
  }
  return builder.finish(pre_tokenizer, std::move(extras));
}

Result<Tokenizer> load_tokenizer_json(const std::filesystem::path& folder) {
  const auto path = folder / "tokenizer.json";
  SLUICE_ASSIGN(const std::string text, read_small_file(path, kTokenizerLimit));
  return parse_tokenizer_json(text, read_chat_files(folder), path.native());
}

}  // namespace sluice::text
