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

}  // namespace sluice::cli
