#include "cli/tokens.h"

#include "engine/model_text.h"
#include "store/checkpoint.h"

namespace sluice::cli {

Result<text::Tokenizer> load_tokenizer(const std::filesystem::path& model) {
  auto tokenizer = engine::load_tokenizer(model);
  if (tokenizer) return tokenizer;
  if (const auto checkpoint = store::Checkpoint::open(model); !checkpoint) {
    return tl::unexpected(checkpoint.error());
  }
  return tokenizer;
}

Result<std::vector<std::int32_t>> end_ids(const text::Tokenizer* tokenizer,
                                          const std::filesystem::path& folder,
                                          const model::Shape& shape) {
  std::vector<std::int32_t> ids;
  if (tokenizer != nullptr) {
    SLUICE_ASSIGN(ids, text::stop_ids(*tokenizer, folder));
  }
  ids.insert(ids.end(), shape.end_ids.begin(), shape.end_ids.end());
  return ids;
}

Result<std::vector<std::int32_t>> prompt_ids(const PromptOptions& prompt,
                                             const std::filesystem::path& model) {
  SLUICE_ASSIGN(const std::string text, read_prompt(prompt));
  if (!prompt.has_text()) return prompt.ids;
  SLUICE_ASSIGN(const text::Tokenizer tokenizer, load_tokenizer(model));
  return tokenizer.encode_prompt(text);
}

}  // namespace sluice::cli
