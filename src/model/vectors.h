// The small tensors of a model, resident as float32.
#pragma once

#include "base/buffer.h"
#include "base/ledger.h"
#include "base/result.h"
#include "io/reader.h"
#include "model/blueprint.h"

namespace sluice::model {

class VectorTable {
 public:
  /// Reads all vectors of the blueprint, a few MiB at a time.
  static Result<VectorTable> load(const Blueprint& blueprint, io::Reader& reader,
                                  MemoryLedger& ledger);

  /// Multiplies `into` by `factor`, element by element, once and for all.
  void multiply(const Vector& into, const Vector& factor);

  /// Adds `number` to each element of `to`, once and for all.
  void add(const Vector& to, float number);

  const float* operator[](const Vector& vector) const {
    return room_.floats().data() + vector.offset;
  }

 private:
  Buffer room_;
};

/// Reads the embedding's rows of `tokens` as float32. out: [tokens, columns].
Status read_embedding(const EmbeddingTable& table, std::span<const std::int32_t> tokens,
                      io::Reader& reader, std::span<std::byte> room, float* out);

/// Room that read_embedding() works with, in bytes.
std::size_t embedding_room(const EmbeddingTable& table);

}  // namespace sluice::model
