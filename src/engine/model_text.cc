#include "engine/model_text.h"

#include <string>
#include <system_error>

#include "engine/gguf_tokenizer.h"
#include "store/checkpoint.h"
#include "store/pack.h"
#include "store/pack_companions.h"
#include "text/stop_ids.h"
#include "text/tokenizer_json.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;

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

}  // namespace

Result<fs::path> text_folder(const fs::path& model) {
  SLUICE_ASSIGN(fs::path folder, store::folder_of_model(model));
  std::error_code ignored;
  const bool gguf =
      fs::is_directory(model, ignored) ? has_only_gguf(folder) : model.extension() == ".gguf";
  return gguf ? fs::path() : folder;
}

Result<bool> has_tokenizer(const fs::path& model) {
  SLUICE_ASSIGN(const fs::path folder, text_folder(model));
  if (folder.empty()) {
    SLUICE_ASSIGN(const store::Checkpoint checkpoint, store::Checkpoint::open(model));
    return has_gguf_tokenizer(*checkpoint.metadata());
  }
  SLUICE_ASSIGN(const auto pack, store::find_pack_index(model));
  if (pack) SLUICE_TRY(store::expect_companions_of(*pack));
  return is_there(folder / "tiktoken.model") || is_there(folder / "tokenizer.json");
}

Status expect_tokenizer(const fs::path& model) {
  SLUICE_ASSIGN(const bool has_one, has_tokenizer(model));
  if (has_one) return {};
  SLUICE_TRY(store::Checkpoint::open(model));
  return fail(ErrorKind::model_files,
              "{}: the model has no tokenizer (tiktoken.model or tokenizer.json), so it takes and "
              "gives only ids: put the tokenizer beside the weights, or use `sluice run --ids`",
              model.native());
}

Result<text::Tokenizer> load_tokenizer(const fs::path& model) {
  SLUICE_ASSIGN(const fs::path folder, text_folder(model));
  if (folder.empty()) {
    SLUICE_ASSIGN(const store::Checkpoint checkpoint, store::Checkpoint::open(model));
    return read_gguf_tokenizer(*checkpoint.metadata());
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
