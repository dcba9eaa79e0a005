// The checksum of packs: XXH3-64 with seed 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace sluice::store {

std::uint64_t checksum_of(std::span<const std::byte> bytes);
inline std::uint64_t checksum_of(std::string_view text) {
  return checksum_of(std::as_bytes(std::span(text)));
}

/// The same of bytes that come in pieces.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void add(std::span<const std::byte> bytes);
  /// Of everything added since the last call.
  std::uint64_t take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::store
