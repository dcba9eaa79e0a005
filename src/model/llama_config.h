// The hyperparameters of llama and the families that differ from it in a detail: mistral, qwen2 and
// qwen3, and the mixtures mixtral and qwen3_moe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/gqa.h"
#include "model/moe.h"
#include "model/rope.h"
#include "store/checkpoint.h"
#include "store/metadata.h"

namespace sluice::model {

struct LlamaConfig {
  std::string model_type;  ///< "llama", "qwen2", ...
  bool gguf = false;       ///< the container, and with it the tensors' names
  std::size_t hidden = 0;
  std::size_t layers = 0;
  std::size_t vocabulary = 0;
  std::size_t width = 0;  ///< of the feed-forward network
  float epsilon = 0;
  std::size_t max_positions = 0;
  MoeConfig moe;
  std::vector<bool> moe_layers;  ///< by layer; empty: all are dense
  GqaConfig attention;
  std::vector<std::size_t> windows;  ///< by layer (read_windows())
  RopeConfig rope;
  bool rope_divisors = false;  ///< a tensor has them (GGUF)
  bool tied = false;           ///< the embedding is the output head
  std::vector<std::int32_t> end_ids;

  bool is_moe(std::size_t layer) const { return !moe_layers.empty() && moe_layers[layer]; }
};

/// Reads config.json's text. Every fault is listed: what is missing, not supported or not
/// understood. ErrorKind::model_files.
Result<LlamaConfig> parse_llama_config(const std::string& text);

/// Reads the metadata of a GGUF checkpoint of one of the families; likewise.
Result<LlamaConfig> read_llama_metadata(const store::Checkpoint& checkpoint,
                                        const store::Metadata& metadata);

}  // namespace sluice::model
