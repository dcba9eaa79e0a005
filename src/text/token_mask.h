// Which tokens may come next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::text {

/// One bit per token.
class TokenMask {
 public:
  explicit TokenMask(std::size_t tokens = 0) : words_((tokens + 63) / 64), tokens_(tokens) {}

  void allow(std::int32_t id) {
    words_[static_cast<std::size_t>(id) / 64] |= std::uint64_t{1} << (id % 64);
  }
  bool allows(std::size_t id) const {
    return id < tokens_ && ((words_[id / 64] >> (id % 64)) & 1) != 0;
  }
  bool none() const {
    return std::all_of(words_.begin(), words_.end(), [](std::uint64_t word) { return word == 0; });
  }
  /// Allows what `other`, of the same size, allows.
  void add(const TokenMask& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  std::uint64_t memory_bytes() const { return sizeof(*this) + words_.capacity() * 8; }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t tokens_;
};

}  // namespace sluice::text
