// Banks of experts over a model of pattern bytes, and using them.
#pragma once

#include <random>
#include <set>
#include <utility>
#include <vector>

#include "weights/expert_banks.h"
#include "weights/pattern.h"

namespace sluice::weights {

constexpr std::uint64_t kPlenty = std::uint64_t{1} << 30;

inline Placement placement_with(const PatternModel& model, std::size_t wave, std::size_t bank) {
  Placement placement = place(model.blocks, *model.reader, {}, kPlenty).value();
  placement.wave_slots = wave;
  placement.bank_slots = {0, bank, bank};
  return placement;
}

/// Takes the experts of one request; each must come once, whole, with its own bytes.
inline Status use(ExpertBanks& banks, const Blocks& blocks, std::size_t layer,
                  const std::set<std::int32_t>& ids) {
  const std::vector<std::int32_t> wanted(ids.begin(), ids.end());
  banks.begin(layer, wanted);
  std::set<std::int32_t> seen;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    SLUICE_ASSIGN(const ReadyExpert expert, banks.next());
    EXPECT_TRUE(seen.insert(expert.id).second);
    const ExpertLayer& experts = blocks.expert_layers[layer];
    const ExpertPlace& place = experts.experts[static_cast<std::size_t>(expert.id)];
    for (std::size_t part = 0; part < experts.parts; ++part) {
      EXPECT_TRUE(is_pattern(expert.part[part], place.offset[part], experts.part_bytes[part]));
    }
    banks.release(expert);
  }
  EXPECT_EQ(seen, ids);
  return {};
}

inline std::set<std::int32_t> random_ids(std::mt19937& random, std::size_t most) {
  std::set<std::int32_t> ids;
  const std::size_t count = 1 + random() % most;
  while (ids.size() < count) ids.insert(static_cast<std::int32_t>(random() % 12));
  return ids;
}

}  // namespace sluice::weights
