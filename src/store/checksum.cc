#include "store/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice::store {

struct Checksum::State {
  XXH3_state_t hash;
};

std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->hash); }
Checksum::~Checksum() = default;

void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->hash, bytes.data(), bytes.size());
}

std::uint64_t Checksum::take() {
  const std::uint64_t digest = XXH3_64bits_digest(&state_->hash);
  XXH3_64bits_reset(&state_->hash);
  return digest;
}

}  // namespace sluice::store
