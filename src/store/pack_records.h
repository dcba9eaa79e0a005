// How the index of a pack lies in its file: for those who write and read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "store/checkpoint.h"
#include "store/pack_index.h"

namespace sluice::store {

inline constexpr std::string_view kPackIndexMagic = "SLUICEPK";
inline constexpr std::uint32_t kPackIndexVersion = 2;  // of the index; 1 knew no companions
inline constexpr std::uint64_t kPackHashBytes = sizeof(std::uint64_t);

/// The fixed part at the start of an index. Little-endian, no padding.
struct PackIndexHead {
  char magic[8];
  std::uint32_t version;
  std::uint32_t folders;
  std::uint32_t deal;
  std::uint32_t patterns;
  std::uint32_t kinds;
  std::uint32_t companions;
  std::uint64_t text_bytes;
  std::uint64_t tensors;
  std::uint64_t blocks;
  std::uint64_t units;
  std::uint64_t chunk_bytes;
  std::uint64_t stream_bytes;
  std::uint64_t identity;
};
static_assert(sizeof(PackIndexHead) == 88);

struct PackKindRecord {
  std::uint8_t dtype;
  std::uint8_t rank;
  std::uint16_t reserved16;
  std::uint32_t reserved32;
  std::uint64_t size[kMaxDimensions];
};
static_assert(sizeof(PackKindRecord) == 72);

struct PackCompanionRecord {
  std::uint64_t bytes;
  std::uint64_t checksum;
};
static_assert(sizeof(PackCompanionRecord) == 16);
static_assert(sizeof(PackTensor) == 24 && sizeof(PackBlock) == 16);

}  // namespace sluice::store
