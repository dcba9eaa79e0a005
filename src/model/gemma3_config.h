// The hyperparameters of Gemma 3's text model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/gqa.h"
#include "model/rope.h"
#include "store/checkpoint.h"

namespace sluice::model {

struct Gemma3Config {
  std::string model_type;  ///< "gemma3" (with a vision tower, left out) or "gemma3_text"
  bool gguf = false;       ///< the container, and with it the tensors' names
  std::size_t hidden = 0;
  std::size_t layers = 0;
  std::size_t vocabulary = 0;
  std::size_t width = 0;  ///< of the feed-forward network
  float epsilon = 0;
  std::size_t max_positions = 0;
  GqaConfig attention;
  std::vector<std::size_t> windows;  ///< by layer (read_windows())
  RopeConfig global_rope;            ///< of layers without a window
  RopeConfig local_rope;             ///< of layers with one
  bool tied = true;                  ///< the embedding is the output head
  std::vector<std::int32_t> end_ids;
};

/// Reads config.json's text. Every fault is listed: what is missing, not supported or not
/// understood. ErrorKind::model_files.
Result<Gemma3Config> parse_gemma3_config(const std::string& text);

/// Reads the metadata of a GGUF checkpoint; likewise.
Result<Gemma3Config> read_gemma3_metadata(const store::Checkpoint& checkpoint);

}  // namespace sluice::model
