// What happens to experts, for whoever watches: which are read, used and in memory.
//
// The banks write, one event at a time under their mutex; any thread may read without a lock, so a
// watcher never holds up a pass. A cell is one word: when it last changed, and what is true of it
// since then. Who has seen everything up to a moment asks for what came after it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "weights/blocks.h"

namespace sluice::weights {

class ExpertActivity {
 public:
  enum class LastUse : std::uint8_t { none, from_memory, from_drive };
  struct State {
    bool in_memory = false;
    bool reading = false;              ///< its reads are under way
    LastUse last_use = LastUse::none;  ///< since it came; a wave's expert keeps it when it leaves
    bool operator==(const State&) const = default;
  };
  /// Bits of a state as snapshots have them.
  static constexpr std::uint32_t kInMemory = 1;
  static constexpr std::uint32_t kReading = 2;
  static constexpr std::uint32_t kFromMemory = 4;
  static constexpr std::uint32_t kFromDrive = 8;
  static constexpr int kStateBits = 4;

  struct Changes {
    std::uint64_t now = 0;             ///< to ask from the next time
    std::vector<std::uint32_t> cells;  ///< (layer * experts() + expert) << kStateBits | state
  };

  explicit ExpertActivity(const Blocks& blocks);

  /// Memory for the cells and for one list of changes, in bytes.
  static std::uint64_t memory_bytes(const Blocks& blocks);

  std::size_t layers() const { return layers_; }
  std::size_t experts() const { return experts_; }  ///< of the layer with the most
  std::size_t count() const { return count_; }      ///< of all layers

  /// One thread at a time.
  void note(std::size_t layer, std::int32_t expert, State state);

  /// Every cell that changed after `since`; all that ever did, for 0 and for moments to come.
  Changes since(std::uint64_t since) const;

 private:
  const std::size_t layers_;
  const std::size_t experts_;
  std::size_t count_ = 0;
  std::atomic<std::uint64_t> now_{0};
  std::vector<std::atomic<std::uint64_t>>
      cells_;  // [layers, experts]: moment << kStateBits | state
};

}  // namespace sluice::weights
