// What a config.json says of quantized weights. Only checked: what is quantized shows in the
// tensors.
#pragma once

#include "model/fields.h"

namespace sluice::model {

/// What compressed-tensors packs routed experts into.
enum class Compressed : unsigned char {
  mxfp4,  ///< Kimi K3
  int4,   ///< Kimi K2 Thinking
};

void check_compressed_tensors(Fields fields, Compressed compressed);

/// FP8 in blocks of 128 x 128 with a scale each (DeepSeek V3).
void check_block_fp8(Fields fields);

/// MXFP4 as gpt-oss packs it.
void check_mxfp4(Fields fields);

}  // namespace sluice::model
