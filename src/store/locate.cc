#include "store/locate.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <system_error>
#include <utility>

#include "store/checkpoint.h"
#include "store/pack.h"
#include "store/places.h"

namespace sluice::store {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexSuffix = ".safetensors.index.json";
constexpr std::string_view kWeightSuffix = ".safetensors";
constexpr std::string_view kGgufSuffix = ".gguf";
constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::uint32_t kMaxShards = 99999;
constexpr std::string_view kExpected =
    "a model's folder, its index (model.safetensors.index.json), one of its weight files, or a "
    "GGUF file";

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

Result<std::vector<std::string>> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  if (error) {
    return fail(ErrorKind::model_files, "{}: the folder cannot be read: {}", folder.string(),
                error.message());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// "a, b, c and 5 more"
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kNames = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNames); ++i) {
    text += (i == 0 ? "" : ", ") + shown(names[i]);
  }
  if (names.size() > kNames) text += fmt::format(" and {} more", names.size() - kNames);
  return text;
}

bool looks_like_weights(std::string_view name) {
  return name.find(kWeightSuffix) != std::string_view::npos || name.ends_with(kGgufSuffix);
}

/// Notes what looks like weights beside the model and is not part of it.
void note_strays(const std::vector<std::string>& names, ModelFiles& files) {
  std::vector<std::string> strays;
  for (const std::string& name : names) {
    const bool ours = name == files.index_name ||
                      std::binary_search(files.shards.begin(), files.shards.end(), name);
    if (!ours && looks_like_weights(name)) strays.push_back(name);
  }
  if (strays.empty()) return;
  files.notes.push_back(fmt::format(
      "{}: ignored {}, not part of the model: {}", files.folder.string(),
      strays.size() == 1 ? "one file" : fmt::format("{} files", strays.size()), listed(strays)));
}

ModelFiles with_index(fs::path folder, std::string index_name, FaultList& faults) {
  ModelFiles files;
  files.index = Index::read(folder / index_name, faults);
  files.folder = std::move(folder);
  files.index_name = std::move(index_name);
  if (files.index) files.shards = files.index->shards();
  return files;
}

ModelFiles with_shards(fs::path folder, std::vector<std::string> shards) {
  ModelFiles files;
  files.folder = std::move(folder);
  files.shards = std::move(shards);
  if (files.shards.size() > 1) {
    files.notes.push_back(fmt::format(
        "{}: no model.safetensors.index.json beside these {} weight files; opened by their names",
        files.folder.string(), files.shards.size()));
  }
  return files;
}

std::vector<std::string> whole_set(const ShardName& part) {
  std::vector<std::string> names;
  for (std::uint32_t number = 1; number <= part.count; ++number) {
    names.push_back(part.sibling(number));
  }
  return names;
}

/// The GGUF file of this name, with the other parts of its set.
ModelFiles gguf_files(fs::path folder, const std::string& name) {
  const auto part = ShardName::parse(name, kGgufSuffix);
  ModelFiles files;
  files.folder = std::move(folder);
  files.shards = part ? whole_set(*part) : std::vector{name};
  files.is_gguf = true;
  return files;
}

/// One part of each set of shards in the folder.
std::vector<ShardName> sets_among(const std::vector<std::string>& names,
                                  std::string_view suffix = kWeightSuffix) {
  std::vector<ShardName> sets;
  for (const std::string& name : names) {
    const auto part = ShardName::parse(name, suffix);
    if (!part || name.starts_with('.')) continue;
    const bool known = std::any_of(sets.begin(), sets.end(),
                                   [&](const ShardName& other) { return part->same_set(other); });
    if (!known) sets.push_back(*part);
  }
  return sets;
}

std::vector<std::string> ending_with(const std::vector<std::string>& names,
                                     std::string_view suffix) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (name.ends_with(suffix) && !name.starts_with('.')) found.push_back(name);
  }
  return found;
}

/// A file of each GGUF model in the folder.
std::vector<std::string> gguf_models(const std::vector<std::string>& names) {
  std::vector<std::string> models;
  for (const ShardName& set : sets_among(names, kGgufSuffix)) models.push_back(set.sibling(1));
  for (const std::string& name : ending_with(names, kGgufSuffix)) {
    if (!ShardName::parse(name, kGgufSuffix)) models.push_back(name);
  }
  return models;
}

/// The error for a folder in which nothing names itself a model.
tl::unexpected<Error> no_model(const fs::path& folder, const std::vector<std::string>& names) {
  const auto weights = ending_with(names, kWeightSuffix);
  if (!weights.empty()) {
    return fail(ErrorKind::model_files,
                "{}: no model.safetensors.index.json and no model.safetensors in this folder; open "
                "one of its files by name: {}",
                folder.string(), listed(weights));
  }
  return fail(ErrorKind::model_files,
              "{}: no model in this folder: expected model.safetensors.index.json and its shards, "
              "model.safetensors, or a GGUF file",
              folder.string());
}

/// `names` and what lies in the further folders, each once.
Result<std::vector<std::string>> with_further(const std::vector<std::string>& names,
                                              const std::vector<fs::path>& further) {
  std::set<std::string> all(names.begin(), names.end());
  for (const fs::path& folder : further) {
    SLUICE_ASSIGN(const auto more, names_in(folder));
    all.insert(more.begin(), more.end());
  }
  return std::vector<std::string>(all.begin(), all.end());
}

/// The model of a folder by the names in it; no file is read.
struct Choice {
  fs::path folder;
  std::string index_name;           // empty: there is none
  std::vector<std::string> shards;  // without an index
  std::string gguf;                 // or this file of a GGUF model
  std::vector<std::string> names;   // all in the folder
};

Result<Choice> choose_in(const fs::path& folder, const std::vector<fs::path>& further = {},
                         bool in_cache = false) {
  SLUICE_ASSIGN(const auto names, names_in(folder));
  SLUICE_ASSIGN(const auto everywhere, with_further(names, further));
  auto indexes = ending_with(names, kIndexSuffix);
  const bool has_default = std::binary_search(names.begin(), names.end(),
                                              std::string("model") + std::string(kIndexSuffix));
  const bool has_single =
      std::binary_search(everywhere.begin(), everywhere.end(), std::string(kSingleFile));
  if (has_default) indexes = {std::string("model") + std::string(kIndexSuffix)};
  const auto sets = sets_among(everywhere);
  Choice choice = {folder, {}, {}, {}, names};
  if (indexes.size() == 1 && (has_default || !has_single)) {
    choice.index_name = indexes[0];
  } else if (indexes.size() + sets.size() + (has_single ? 1 : 0) > 1) {
    for (const ShardName& set : sets) indexes.push_back(set.sibling(set.number));
    if (has_single) indexes.emplace_back(kSingleFile);
    return fail(ErrorKind::model_files,
                "{}: more than one model in this folder; open one of them by name: {}",
                folder.string(), listed(indexes));
  } else if (has_single) {
    choice.shards = {std::string(kSingleFile)};
  } else if (sets.size() == 1) {
    choice.shards = whole_set(sets[0]);
  } else if (!in_cache && is_folder(folder / "snapshots")) {
    SLUICE_ASSIGN(const auto snapshot, snapshot_of(folder));
    return choose_in(snapshot, further, true);
  } else {
    const auto models = gguf_models(names);
    if (models.empty() || !ending_with(names, kWeightSuffix).empty()) {
      return no_model(folder, names);
    }
    if (models.size() > 1) {
      return fail(ErrorKind::model_files,
                  "{}: more than one model in this folder; open one of them by name: {}",
                  folder.string(), listed(models));
    }
    choice.gguf = models[0];
  }
  return choice;
}

Result<ModelFiles> locate_folder(const fs::path& path, const std::vector<fs::path>& further,
                                 FaultList& faults) {
  SLUICE_ASSIGN(Choice choice, choose_in(path, further));
  ModelFiles files = !choice.gguf.empty() ? gguf_files(std::move(choice.folder), choice.gguf)
                     : choice.index_name.empty()
                         ? with_shards(std::move(choice.folder), std::move(choice.shards))
                         : with_index(std::move(choice.folder), choice.index_name, faults);
  note_strays(choice.names, files);
  return files;
}

/// What a path must be, beside a folder.
Status expect_file(const fs::path& path) {
  if (path.native().find('\0') != std::string::npos) {
    return fail(ErrorKind::model_files, "a file name contains a null byte");
  }
  if (!is_there(path)) {
    return fail(ErrorKind::model_files, "{}: no such file or folder; expected {}", path.string(),
                kExpected);
  }
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);  // of what a link leads to
  if (fs::exists(status) && !fs::is_directory(status) && !fs::is_regular_file(status)) {
    return fail(ErrorKind::model_files, "{}: this is no model: expected {}", path.string(),
                kExpected);
  }
  const std::string name = path.filename().string();
  if (fs::is_regular_file(status) && name.ends_with(".json") && !name.ends_with(".index.json")) {
    return fail(ErrorKind::model_files,
                "{}: neither an index nor a weight file; give the model's folder, {}{}",
                path.string(), path.has_parent_path() ? path.parent_path().string() : ".",
                name == "config.json"
                    ? fmt::format(", or ask `sluice plan {}` about a config alone", path.string())
                    : "");
  }
  return {};
}

/// The model that a weight file belongs to: that of the index which names it, else its set.
ModelFiles locate_weights(const fs::path& folder, const std::string& name, FaultList& faults) {
  if (name.ends_with(kGgufSuffix)) return gguf_files(folder, name);
  const auto part = ShardName::parse(name);
  const std::string index_name = (part ? part->stem : "model") + std::string(kIndexSuffix);
  std::vector<std::string> notes;
  if (is_there(folder / index_name)) {
    FaultList index_faults;
    ModelFiles files = with_index(folder, index_name, index_faults);
    const bool named = std::binary_search(files.shards.begin(), files.shards.end(), name);
    if (named || (part && !files.index)) {
      faults = std::move(index_faults);
      return files;
    }
    notes.push_back(fmt::format("{} does not name {}: opened without it",
                                (folder / index_name).string(), shown(name)));
  }
  ModelFiles files = with_shards(folder, part ? whole_set(*part) : std::vector{name});
  if (!notes.empty()) files.notes = std::move(notes);
  return files;
}

std::optional<std::uint32_t> number_in(std::string_view digits) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

}  // namespace

bool is_weights_name(std::string_view name) {
  return looks_like_weights(name) || name.starts_with("sluice-pack");
}

std::optional<ShardName> ShardName::parse(std::string_view name, std::string_view suffix) {
  constexpr std::string_view kOf = "-of-";
  if (!name.ends_with(suffix)) return std::nullopt;
  const std::string_view body = name.substr(0, name.size() - suffix.size());
  const std::size_t of = body.rfind(kOf);
  if (of == std::string_view::npos || of == 0) return std::nullopt;
  const std::size_t dash = body.rfind('-', of - 1);
  if (dash == std::string_view::npos || dash == 0) return std::nullopt;
  const std::string_view digits = body.substr(dash + 1, of - dash - 1);
  const auto number = number_in(digits);
  const auto count = number_in(body.substr(of + kOf.size()));
  if (!number || !count || *number < 1 || *number > *count || *count > kMaxShards) {
    return std::nullopt;
  }
  return ShardName{std::string(body.substr(0, dash)), *number, *count, digits.size(),
                   std::string(name.substr(of))};
}

std::string ShardName::sibling(std::uint32_t other) const {
  return fmt::format("{}-{:0{}}{}", stem, other, digits, rest);
}

Result<fs::path> snapshot_of(const fs::path& folder) {
  const fs::path snapshots = folder / "snapshots";
  if (auto revision = read_text(folder / "refs" / "main", 256)) {
    while (revision->ends_with('\n')) revision->pop_back();
    const bool plain = revision->find('/') == std::string::npos && !revision->starts_with('.');
    if (plain && is_folder(snapshots / *revision)) return snapshots / *revision;
  }
  SLUICE_ASSIGN(const auto names, names_in(snapshots));
  if (names.size() == 1 && is_folder(snapshots / names[0])) return snapshots / names[0];
  return fail(ErrorKind::model_files,
              "{}: {} snapshots in this cache folder, and refs/main names none of them; open one "
              "of them: {}",
              snapshots.string(), names.size(), listed(names));
}

Result<ModelFiles> locate(const fs::path& path, const std::vector<fs::path>& further,
                          FaultList& faults) {
  SLUICE_TRY(expect_file(path));
  if (is_folder(path)) return locate_folder(path, further, faults);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const std::string name = path.filename().string();
  ModelFiles files = name.ends_with(".json") ? with_index(folder, name, faults)
                                             : locate_weights(folder, name, faults);
  if (const auto names = names_in(folder)) note_strays(*names, files);
  return files;
}

Result<fs::path> folder_of_model(const fs::path& path) {
  SLUICE_TRY(expect_file(path));
  // A pack that is not finished lacks its small files too, but that is not what is wrong with it.
  SLUICE_TRY(find_pack_index(path));
  if (!is_folder(path)) return path.has_parent_path() ? path.parent_path() : fs::path(".");
  // Without weights it may still be somebody's folder with a tokenizer or a config.
  const auto choice = choose_in(path);
  return choice ? choice->folder : path;
}

}  // namespace sluice::store
