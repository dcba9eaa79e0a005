// The planner: what stays in memory, what goes through the ring, how many expert slots there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "io/reader.h"
#include "weights/blocks.h"
#include "weights/expert_use.h"
#include "weights/schedule.h"

namespace sluice::weights {

/// Heap that each tile costs: its span, whether it is resident, and what TrunkStream knows of it
/// (its state, where its bytes are, where its room is, whether it is still resident).
inline constexpr std::uint64_t kTableBytesPerTile =
    sizeof(TileSpan) + sizeof(std::byte*) + sizeof(std::uint64_t) + 3;

/// Where every byte of the weights will live.
struct Placement {
  Schedule schedule;
  std::vector<bool> resident;           ///< by tile of the schedule
  std::uint64_t table_bytes = 0;        ///< heap for the tables of the tiles
  std::uint64_t resident_room = 0;      ///< bytes for the resident tiles
  std::uint64_t ring_bytes = 0;         ///< 0 when all tiles are resident
  std::uint64_t slot_bytes = 0;         ///< room for one expert
  std::size_t wave_slots = 0;           ///< expert slots shared by all layers
  std::vector<std::size_t> bank_slots;  ///< expert slots kept per layer

  /// What the tables and buffers of this placement will charge to the ledger.
  std::uint64_t charge() const;
  /// Bytes of the expert slots that stay with their layer.
  std::uint64_t bank_bytes() const;
};

/// Sizes of reads: how a reader rounds and what is worth reading at once.
struct ReadShape {
  std::uint64_t tile_bytes = std::uint64_t{8} << 20;  ///< preferred
  std::uint64_t ring_tiles = 12;                      ///< preferred depth of the ring, in tiles
  std::optional<std::uint64_t> ring_bytes = {};       ///< of the ring, instead of ring_tiles
  /// Of what is left for resident tiles and banks, the share that tiles may have; instead of trunk
  /// first. To compare with.
  double trunk_share = 1;
};

/// Places the weights into at most `budget` bytes by value per byte: what is needed to run at all,
/// enough ring and wave slots to keep the drives busy, then trunk tiles (each saves its bytes once
/// per pass), then experts (each saves its bytes as often as it is picked): where `use` is known,
/// half of the slots go to the layers whose next most used expert is used most; the rest, and all
/// of them if it is empty, equally to all layers.
///
/// Resident tiles are spread evenly over the schedule, not gathered in a prefix: between two
/// streamed tiles there is then always the arithmetic of resident ones to hide the read behind.
///
/// Fails with ErrorKind::memory when even the smallest placement is larger than `budget`, or with
/// the ring that was asked for.
Result<Placement> place(const Blocks& blocks, const io::Reader& reader, const ReadShape& shape,
                        std::uint64_t budget, const ExpertUse& use = {});

/// The smallest budget for which place() succeeds.
std::uint64_t smallest_budget(const Blocks& blocks, const io::Reader& reader);

}  // namespace sluice::weights
