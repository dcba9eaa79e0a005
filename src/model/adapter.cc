#include "model/adapter.h"

#include <algorithm>

#include "kernels/ops.h"

namespace sluice::model {
namespace {

bool all_finite(const kernels::Rows& rows, std::vector<float>& room) {
  room.resize(rows.columns);
  for (std::size_t row = 0; row < rows.rows; ++row) {
    kernels::decode_row(rows, row, room.data());
    if (!kernels::all_finite(room.data(), room.size())) return false;
  }
  return true;
}

}  // namespace

std::uint64_t Adapter::charge_for(const AdapterLayout& layout, const io::Reader& reader) {
  return Buffer::charge_for(reader.room_for(layout.extent.length));
}

Result<Adapter> Adapter::load(const AdapterLayout& layout, io::Reader& reader,
                              MemoryLedger& ledger) {
  SLUICE_ASSIGN(Buffer room,
                Buffer::allocate(reader.room_for(layout.extent.length), Tenant::adapters, ledger));
  SLUICE_ASSIGN(const auto bytes,
                io::read_now(reader, layout.extent, room.bytes(), io::Purpose::other));
  Adapter adapter(layout, std::move(room), bytes);
  SLUICE_TRY(adapter.check_numbers());
  return adapter;
}

std::optional<LowRank> Adapter::pair_of(weights::MatrixId matrix) const {
  if (matrix >= layout_->pair_of.size() || layout_->pair_of[matrix] < 0) return std::nullopt;
  return pair(layout_->pairs[static_cast<std::size_t>(layout_->pair_of[matrix])]);
}

LowRank Adapter::pair(const AdapterLayout::Pair& pair) const {
  const auto rows = [&](const AdapterLayout::Piece& piece, std::size_t count,
                        std::size_t columns) -> kernels::Rows {
    return {piece.format, bytes_.data() + piece.offset, nullptr, count, columns};
  };
  return {rows(pair.a, pair.rank, pair.columns), rows(pair.b, pair.rows, pair.rank), pair.scale};
}

/// Here, because in a pass the model's weights would be blamed.
Status Adapter::check_numbers() const {
  std::vector<float> room;
  for (const AdapterLayout::Pair& each : layout_->pairs) {
    const LowRank weights = pair(each);
    if (all_finite(weights.a, room) && all_finite(weights.b, room)) continue;
    return fail(ErrorKind::number,
                "the adapter {} has weights that are not finite; the file is damaged or was so "
                "trained",
                layout_->folder.string());
  }
  return {};
}

}  // namespace sluice::model
