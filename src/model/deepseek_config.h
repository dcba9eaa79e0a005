// The hyperparameters of DeepSeek V3, Kimi K2 and Moonlight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/mla.h"
#include "model/moe.h"
#include "model/rope.h"
#include "store/checkpoint.h"
#include "store/metadata.h"

namespace sluice::model {

struct DeepseekConfig {
  enum class Weights : std::uint8_t {
    plain,
    block_fp8,     ///< the layers' matrices are FP8 with scales
    int4_experts,  ///< the routed experts are INT4
  };

  std::string model_type;
  bool gguf = false;  ///< the tensors have GGUF's names
  std::size_t hidden = 0;
  std::size_t layers = 0;
  std::size_t drafting_layers = 0;  ///< after those, for multi-token prediction: left out
  std::size_t vocabulary = 0;
  float epsilon = 0;
  std::size_t max_positions = 0;
  MlaConfig mla;
  RopeConfig rope;
  MoeConfig moe;
  std::size_t first_moe_layer = 0;  ///< layers below are dense
  std::size_t dense_width = 0;
  bool tied = false;                   ///< the embedding is the output head
  Weights announced = Weights::plain;  ///< what is there counts
  std::vector<std::int32_t> end_ids;

  bool is_moe(std::size_t layer) const { return layer >= first_moe_layer; }
};

/// Reads config.json's text. Every fault is listed. ErrorKind::model_files.
Result<DeepseekConfig> parse_deepseek_config(const std::string& text);

/// Reads a GGUF file's metadata, and from the first layer's tensors how MLA's heads are stored.
/// Likewise.
Result<DeepseekConfig> read_deepseek_metadata(const store::Checkpoint& checkpoint,
                                              const store::Metadata& metadata);

}  // namespace sluice::model
