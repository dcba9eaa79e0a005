// What a synthetic checkpoint consists of: the shards, their tensors and their headers (SPEC 2, 3).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/synth.h"
#include "store/checkpoint.h"

namespace sluice::engine {

/// How a tensor's elements are drawn.
enum class Fill : std::uint8_t {
  normal,  ///< mean + spread * N(0, 1)
  codes,   ///< MXFP4 codes, two to a byte, all equally likely
  scales,  ///< E8M0 bytes: `mean`, or one less or more
};

struct SynthTensor {
  std::string name;
  DType dtype = DType::bf16;
  store::Shape shape;
  Fill fill = Fill::normal;
  float mean = 0;
  float spread = 0;
  std::uint64_t active = 0;  ///< elements after the first `active` are zero

  std::uint64_t elements() const;
  std::uint64_t bytes() const { return elements() * bytes_of(dtype); }
};

struct SynthShard {
  std::string file;
  std::vector<SynthTensor> tensors;  ///< in the order of the header and of the data
  std::string header;                ///< JSON and its padding
  std::uint64_t payload_bytes = 0;
  std::uint64_t file_bytes() const { return 8 + header.size() + payload_bytes; }
};

/// One shard per layer; then embedding, head and last norms; then projector; then vision tower.
inline std::uint64_t shard_count(const SynthOptions& options) {
  return static_cast<std::uint64_t>(options.layers) + 3;
}

/// "model-00001-of-000096.safetensors" for shard 0.
std::string shard_file(const SynthOptions& options, std::uint64_t index);

/// Shard `index`, from 0.
SynthShard make_shard(const SynthOptions& options, std::uint64_t index);

/// Whether `layer`, from 0, is MLA; else it is KDA.
inline bool is_mla(const SynthOptions& options, int layer) {
  return layer % 4 == 3 || layer == options.layers - 1;
}

}  // namespace sluice::engine
