// The room that grammars of requests have together. One that is larger than all of it will never be
// kept, however long its request waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "text/grammar.h"

namespace sluice::server {

class GrammarRoom {
 public:
  explicit GrammarRoom(std::uint64_t bytes)
      : bytes_(bytes),
        left_(std::make_shared<std::atomic<std::int64_t>>(static_cast<std::int64_t>(bytes))) {}

  std::uint64_t bytes() const { return bytes_; }

  /// The same grammar, which gives its room back when nobody has it any more; none if there is no
  /// room for it.
  std::shared_ptr<const text::Grammar> keep(std::shared_ptr<const text::Grammar> grammar) const {
    const auto bytes = static_cast<std::int64_t>(grammar->memory_bytes());
    if (left_->fetch_sub(bytes) < bytes) {
      left_->fetch_add(bytes);
      return nullptr;
    }
    const text::Grammar* const plain = grammar.get();
    return {plain, [left = left_, bytes, held = std::move(grammar)](const text::Grammar*) mutable {
              held.reset();
              left->fetch_add(bytes);
            }};
  }

 private:
  const std::uint64_t bytes_;
  std::shared_ptr<std::atomic<std::int64_t>> left_;
};

}  // namespace sluice::server
