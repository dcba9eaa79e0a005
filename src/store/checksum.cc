#include "store/checksum.h"

#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>  // the widest vectors that the processor has; it is in the library
#else
#define XXH_INLINE_ALL
#include <xxhash.h>
#endif

#include <new>

namespace sluice::store {

struct Checksum::State {
  State() : hash(XXH3_createState()) {
    if (hash == nullptr) throw std::bad_alloc();
    XXH3_64bits_reset(hash);
  }
  ~State() { XXH3_freeState(hash); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  XXH3_state_t* hash;
};

std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Checksum::Checksum() : state_(std::make_unique<State>()) {}
Checksum::~Checksum() = default;

void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_->hash, bytes.data(), bytes.size());
}

std::uint64_t Checksum::take() {
  const std::uint64_t digest = XXH3_64bits_digest(state_->hash);
  XXH3_64bits_reset(state_->hash);
  return digest;
}

}  // namespace sluice::store
