// The tokenizer of a run, if it needs one, and the ids that end an answer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/result.h"
#include "model/network.h"
#include "text/stop_ids.h"
#include "text/tokenizer.h"

namespace sluice::cli {

/// The ids that end an answer: the tokenizer's and generation_config.json's, and the model's own.
/// Without a tokenizer only the latter.
inline Result<std::vector<std::int32_t>> end_ids(const text::Tokenizer* tokenizer,
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
