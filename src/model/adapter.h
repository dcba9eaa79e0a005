// LoRA adapters (arXiv 2106.09685): pairs of small matrices beside those of a model, computed as
// they are and never merged: y = W x + scale * B (A x).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "io/reader.h"
#include "kernels/matmul.h"
#include "model/blueprint.h"

namespace sluice::model {

/// The pair of one matrix, in memory.
struct LowRank {
  kernels::Rows a;  ///< [rank, columns]
  kernels::Rows b;  ///< [rows, rank]
  float scale = 1;
};

/// Where an adapter's pairs lie in its file: found and checked, nothing of them read.
struct AdapterLayout {
  struct Piece {
    std::uint64_t offset = 0;  ///< in `extent`
    kernels::WeightFormat format = kernels::WeightFormat::f32;
  };
  struct Pair {
    std::size_t rows = 0;  ///< of the model's matrix
    std::size_t columns = 0;
    std::size_t rank = 0;
    float scale = 1;
    Piece a, b;
  };
  std::filesystem::path folder;
  io::Extent extent;  ///< all pairs, one after the other
  std::vector<Pair> pairs;
  /// By matrix of the model: which pair is its own, or none. Shorter than all matrices.
  std::vector<std::int32_t> pair_of;
  std::size_t rank = 0;  ///< the largest
};

/// Opens an adapter's folder (adapter_config.json, adapter_model.safetensors) and matches it with
/// a model. Fails with ErrorKind::model_files, listing everything that is wrong: what the
/// configuration says and is not supported, tensors that are missing, that no projection of the
/// model has, or of another shape.
Result<AdapterLayout> open_adapter(const std::filesystem::path& folder, const Blueprint& model,
                                   io::Reader& reader);

/// An adapter in memory.
class Adapter {
 public:
  /// Bytes that an adapter charges to Tenant::adapters while it lives.
  static std::uint64_t charge_for(const AdapterLayout& layout, const io::Reader& reader);

  /// Reads all of it at once. `layout` must outlive it. Fails as the reader and the ledger do, and
  /// with ErrorKind::number for a weight that is not finite.
  static Result<Adapter> load(const AdapterLayout& layout, io::Reader& reader,
                              MemoryLedger& ledger);

  /// What it has for a matrix of the model.
  std::optional<LowRank> pair_of(weights::MatrixId matrix) const;

 private:
  Adapter(const AdapterLayout& layout, Buffer room, std::span<const std::byte> bytes)
      : layout_(&layout), room_(std::move(room)), bytes_(bytes) {}
  LowRank pair(const AdapterLayout::Pair& pair) const;
  Status check_numbers() const;

  const AdapterLayout* layout_;
  Buffer room_;
  std::span<const std::byte> bytes_;  // of room_
};

}  // namespace sluice::model
