#include "weights/placement.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

#include "base/buffer.h"
#include "base/size.h"
#include "weights/expert_reads.h"

namespace sluice::weights {
namespace {

// Of the memory for weights, the ring's where nothing needs to stream.
constexpr std::uint64_t kSpareRingPart = 64;

constexpr std::uint64_t kSmallestTile = std::uint64_t{64} << 10;

// A ring of fewer tiles leaves a drive without work while one of them is computed.
constexpr std::uint64_t kFewestTiles = 4;

/// Room for the largest expert of the model.
std::uint64_t slot_bytes(const Blocks& blocks, const io::Reader& reader) {
  std::uint64_t most = 0;
  for (const ExpertLayer& layer : blocks.expert_layers) {
    for (const ExpertPlace& place : layer.experts) {
      std::uint64_t room = 0;
      for (const PartRead& read : reads_of(layer, place)) {
        room += round_up(reader.room_for(read.extent.length), io::kRoomAlignment);
      }
      most = std::max(most, room);
    }
  }
  return most;
}

std::uint64_t tile_room(const TileSpan& tile, const io::Reader& reader) {
  return round_up(reader.room_for(tile.extent.length), io::kRoomAlignment);
}

std::uint64_t longest_room(const Schedule& schedule, const io::Reader& reader) {
  return round_up(reader.room_for(schedule.longest_tile()), io::kRoomAlignment);
}

std::uint64_t all_room(const Schedule& schedule, const io::Reader& reader) {
  std::uint64_t sum = 0;
  for (const TileSpan& tile : schedule.tiles) sum += tile_room(tile, reader);
  return sum;
}

std::size_t layers_with_experts(const Blocks& blocks) {
  return static_cast<std::size_t>(
      std::count_if(blocks.expert_layers.begin(), blocks.expert_layers.end(),
                    [](const ExpertLayer& layer) { return !layer.experts.empty(); }));
}

/// Tiles of a size, and what they cost, before any of them is made.
struct Cut {
  std::uint64_t tile_bytes = 0;
  std::uint64_t longest_room = 0;
  std::uint64_t table_bytes = 0;

  std::uint64_t least_ring() const { return 2 * longest_room; }
  std::uint64_t least_charge() const { return Buffer::charge_for(least_ring()) + table_bytes; }
};

Cut cut_into(const Blocks& blocks, const io::Reader& reader, std::uint64_t tile_bytes) {
  const ScheduleSize size = schedule_size(blocks, tile_bytes);
  return {tile_bytes, round_up(reader.room_for(size.longest_tile), io::kRoomAlignment),
          size.tiles * kTableBytesPerTile};
}

/// The cut that needs the least memory: larger tiles need a larger ring, but fewer lines in the
/// tables, which for a large trunk are more than a ring of the smallest tiles.
Cut smallest_cut(const Blocks& blocks, const io::Reader& reader) {
  // The largest group of rows sizes the ring whatever the tiles: smaller ones would only be more.
  std::uint64_t tile_bytes = kSmallestTile;
  std::uint64_t largest_matrix = 0;
  for (const MatrixBlock& matrix : blocks.matrices) {
    tile_bytes = std::max(tile_bytes, matrix.row_bytes() * matrix.rows_together);
    largest_matrix = std::max(largest_matrix, matrix.extent.length);
  }
  Cut best = cut_into(blocks, reader, tile_bytes);
  while (tile_bytes < largest_matrix) {
    tile_bytes *= 2;
    const Cut larger = cut_into(blocks, reader, tile_bytes);
    if (larger.least_charge() < best.least_charge()) best = larger;
  }
  return best;
}

/// The least that a pass can run with: two tiles under way and one expert at a time. Its tiles are
/// still to be made.
Placement smallest(const Blocks& blocks, const io::Reader& reader, const Cut& cut) {
  Placement placement;
  placement.table_bytes = cut.table_bytes;
  placement.ring_bytes = cut.least_ring();
  placement.slot_bytes = slot_bytes(blocks, reader);
  placement.wave_slots = layers_with_experts(blocks) > 0 ? 1 : 0;
  placement.bank_slots.assign(blocks.expert_layers.size(), 0);
  return placement;
}

/// Bytes that may still be spent; charges are rounded, so a little is kept back.
std::uint64_t left(const Placement& placement, std::uint64_t budget) {
  const std::uint64_t used = placement.charge();
  return budget > used ? budget - used : 0;
}

/// Tiles as large as are worth reading at once, as long as the ring stays a small part of the
/// whole. Returns the size of the tiles; `least` is the placement's.
std::uint64_t grow_ring(const Blocks& blocks, const io::Reader& reader, const ReadShape& shape,
                        std::uint64_t budget, const Cut& least, Placement& placement) {
  const std::uint64_t share = budget / 8;
  const std::uint64_t most = shape.ring_bytes.value_or(share);
  const std::uint64_t tiles = shape.ring_bytes ? kFewestTiles : shape.ring_tiles;
  std::uint64_t tile = shape.tile_bytes;
  while (tile > least.tile_bytes && tile * tiles > most) {
    tile = std::max(tile / 2, least.tile_bytes);
  }
  const Cut cut = cut_into(blocks, reader, tile);
  // Where even the least tiles are large, a ring of so many would crowd out what could stay.
  const std::uint64_t wanted = std::min(shape.ring_tiles * std::min(cut.longest_room, tile),
                                        std::max(share, shape.ring_tiles * kSmallestTile));
  Placement larger = placement;
  larger.table_bytes = cut.table_bytes;
  larger.ring_bytes = std::max(cut.least_ring(), shape.ring_bytes.value_or(wanted));
  if (larger.charge() > budget) return least.tile_bytes;
  placement = std::move(larger);
  return tile;
}

/// Enough slots that all misses of a position's picks can be under way at once.
void grow_wave(const Blocks& blocks, std::uint64_t budget, Placement& placement) {
  if (placement.wave_slots == 0) return;
  const std::uint64_t half = left(placement, budget) / 2;
  const std::size_t affordable = static_cast<std::size_t>(half / placement.slot_bytes);
  const std::size_t wanted = std::max<std::size_t>(1, blocks.top_k);
  placement.wave_slots = std::min(wanted, 1 + affordable);
}

/// Marks tiles resident, evenly over the schedule, until `room` bytes are used.
void spread_residents(const io::Reader& reader, std::uint64_t room, Placement& placement) {
  const auto& tiles = placement.schedule.tiles;
  const std::uint64_t all = all_room(placement.schedule, reader);
  const double share = std::min(1.0, static_cast<double>(room) / static_cast<double>(all));
  std::uint64_t seen = 0;
  const auto take = [&](std::size_t tile) {
    placement.resident[tile] = true;
    placement.resident_room += tile_room(tiles[tile], reader);
  };
  for (std::size_t tile = 0; tile < tiles.size(); ++tile) {
    seen += tile_room(tiles[tile], reader);
    const double due = share * static_cast<double>(seen);
    const std::uint64_t with = placement.resident_room + tile_room(tiles[tile], reader);
    if (static_cast<double>(with) <= due) take(tile);
  }
  for (std::size_t tile = 0; tile < tiles.size(); ++tile) {  // what rounding left over
    const std::uint64_t with = placement.resident_room + tile_room(tiles[tile], reader);
    if (!placement.resident[tile] && with <= room) take(tile);
  }
}

void place_residents(const io::Reader& reader, double trunk_share, std::uint64_t budget,
                     Placement& placement) {
  const auto kept = static_cast<double>(left(placement, budget)) * (1 - trunk_share);
  budget -= static_cast<std::uint64_t>(kept);
  // If everything fits, a ring serves only for the day when others need memory: what they get is
  // streamed then. So it is small, and there is none where it does not fit beside the rest.
  const std::uint64_t smallest_ring = 2 * longest_room(placement.schedule, reader);
  const std::uint64_t spare_ring =
      std::clamp(budget / kSpareRingPart, smallest_ring, placement.ring_bytes);
  const std::uint64_t streaming_ring = placement.ring_bytes;
  placement.resident_room = all_room(placement.schedule, reader);
  for (const std::uint64_t ring : {spare_ring, std::uint64_t{0}}) {
    placement.ring_bytes = ring;
    if (placement.charge() > budget) continue;
    placement.resident.assign(placement.resident.size(), true);
    return;
  }
  placement.resident_room = 0;
  placement.ring_bytes = streaming_ring;
  const std::uint64_t room = Buffer::largest_charged(left(placement, budget));
  if (room > 0) spread_residents(reader, room, placement);
}

/// `slots` slots, equally to all layers.
void share_equally(const Blocks& blocks, std::size_t slots, Placement& placement) {
  const std::size_t layers = layers_with_experts(blocks);
  std::size_t spare = slots % layers;
  for (std::size_t layer = 0; layer < blocks.expert_layers.size(); ++layer) {
    const std::size_t experts = blocks.expert_layers[layer].experts.size();
    if (experts == 0) continue;
    placement.bank_slots[layer] = std::min(slots / layers + (spare > 0 ? 1 : 0), experts);
    if (spare > 0) --spare;
  }
}

/// `slots` more, each to the layer whose next most used expert is used most.
void share_by_use(const ExpertUse& use, std::size_t slots, Placement& placement) {
  ExpertUse ranked = use;
  std::priority_queue<std::pair<float, std::size_t>> next;  // use of a layer's next expert
  const auto offer = [&](std::size_t layer) {
    const std::size_t has = placement.bank_slots[layer];
    if (has < ranked[layer].size()) next.emplace(ranked[layer][has], layer);
  };
  for (std::size_t layer = 0; layer < ranked.size(); ++layer) {
    std::ranges::sort(ranked[layer], std::greater<>());
    offer(layer);
  }
  for (; slots > 0 && !next.empty(); --slots) {
    const std::size_t layer = next.top().second;
    next.pop();
    ++placement.bank_slots[layer];
    offer(layer);
  }
}

bool is_known(const ExpertUse& use) {
  return std::ranges::any_of(use, [](const std::vector<float>& layer) {
    return std::ranges::any_of(layer, [](float each) { return each > 0; });
  });
}

/// Slots that stay with a layer, as many as fit and as there are experts.
void grow_banks(const Blocks& blocks, std::uint64_t budget, const ExpertUse& use,
                Placement& placement) {
  const std::size_t layers = layers_with_experts(blocks);
  if (layers == 0 || placement.slot_bytes == 0) return;
  // The banks share a buffer with the wave slots.
  const std::uint64_t wave = placement.wave_slots * placement.slot_bytes;
  const std::uint64_t room =
      Buffer::largest_charged(left(placement, budget) + Buffer::charge_for(wave)) - wave;
  const std::size_t total = static_cast<std::size_t>(room / placement.slot_bytes);
  const std::size_t by_use = is_known(use) ? total / 2 : 0;
  share_equally(blocks, total - by_use, placement);
  if (by_use > 0) share_by_use(use, by_use, placement);
}

}  // namespace

std::uint64_t Placement::charge() const {
  return table_bytes + Buffer::charge_for(resident_room) + Buffer::charge_for(ring_bytes) +
         Buffer::charge_for(wave_slots * slot_bytes + bank_bytes());
}

std::uint64_t Placement::bank_bytes() const {
  return std::accumulate(bank_slots.begin(), bank_slots.end(), std::size_t{0}) * slot_bytes;
}

std::uint64_t smallest_budget(const Blocks& blocks, const io::Reader& reader) {
  return smallest(blocks, reader, smallest_cut(blocks, reader)).charge();
}

Result<Placement> place(const Blocks& blocks, const io::Reader& reader, const ReadShape& shape,
                        std::uint64_t budget, const ExpertUse& use) {
  const Cut least = smallest_cut(blocks, reader);
  Placement placement = smallest(blocks, reader, least);
  if (placement.charge() > budget) {
    return fail(ErrorKind::memory, "the weights need at least {} of memory at a time, {} are left",
                format_size(placement.charge()), format_size(budget));
  }
  const std::uint64_t tile = grow_ring(blocks, reader, shape, budget, least, placement);
  if (shape.ring_bytes && placement.ring_bytes < *shape.ring_bytes) {
    return fail(ErrorKind::memory,
                "a ring of {} does not fit into the {} that are left for weights; give a larger "
                "--ram, or a smaller --ring",
                format_size(*shape.ring_bytes), format_size(budget));
  }
  grow_wave(blocks, budget, placement);
  placement.schedule = make_schedule(blocks, tile);
  placement.resident.assign(placement.schedule.tiles.size(), false);
  place_residents(reader, shape.trunk_share, budget, placement);
  grow_banks(blocks, budget, use, placement);
  return placement;
}

}  // namespace sluice::weights
