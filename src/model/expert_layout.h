// How the routed experts of a layer are stored: which part of an expert's block is which matrix.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "kernels/matmul.h"
#include "weights/blocks.h"

namespace sluice::model {

/// One matrix of an expert, as numbers of the parts of its block.
struct ExpertMatrix {
  kernels::WeightFormat format = kernels::WeightFormat::f32;
  std::size_t data = 0;
  std::optional<std::size_t> scales;
  std::optional<std::size_t> bias;
  kernels::WeightFormat bias_format = kernels::WeightFormat::f32;
};

struct ExpertLayout {
  ExpertMatrix gate, down, up;
  bool by_turns = false;  ///< `gate` holds a row of gate and a row of up by turns; no `up`
};

/// The routed experts of a layer, as a container names and an architecture shapes them.
struct WantedExperts {
  enum class Form : unsigned char {
    separate,  ///< tensors of each expert: `prefix`ID.`gate`.weight
    together,  ///< each tensor holds all experts, one after the other: `prefix``gate`.weight
    gpt_oss,   ///< together, in MXFP4: `gate`_blocks, _scales and _bias; rows of gate and up by
               ///< turns
  };

  Form form = Form::separate;
  std::string prefix;
  std::string gate;
  std::string down;
  std::string up = {};  ///< gpt_oss has none
  std::size_t count = 0;
  std::size_t width = 0;  ///< that an expert sees: columns of gate and up, rows of down
  std::size_t inner = 0;  ///< rows of gate and up, columns of down
  bool bias = false;
};

}  // namespace sluice::model
