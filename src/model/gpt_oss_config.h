// The hyperparameters of gpt-oss.
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

struct GptOssConfig {
  std::string model_type;
  bool gguf = false;  ///< the container, and with it the tensors' names
  std::size_t hidden = 0;
  std::size_t layers = 0;
  std::size_t vocabulary = 0;
  float epsilon = 0;
  std::size_t max_positions = 0;
  GqaConfig attention;
  RopeConfig rope;
  std::vector<std::size_t> windows;  ///< by layer; 0: all positions
  MoeConfig moe;
  kernels::Glu glu;
  std::vector<std::int32_t> end_ids;
};

/// Reads config.json's text. Every fault is listed. ErrorKind::model_files.
Result<GptOssConfig> parse_gpt_oss_config(const std::string& text);

/// Reads the metadata of a GGUF checkpoint of the family; likewise.
Result<GptOssConfig> read_gpt_oss_metadata(const store::Checkpoint& checkpoint,
                                           const store::Metadata& metadata);

}  // namespace sluice::model
