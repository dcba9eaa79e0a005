// Finding tokens by their spelling in a text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice::text {

/// Tokens that are looked for in a text as they are spelled, before anything else is done to it.
class Spellings {
 public:
  struct Occurrence {
    std::size_t at;
    std::size_t size;
    std::int32_t id;
  };

  /// `spelling` is not empty.
  void add(std::string spelling, std::int32_t id) { all_.push_back({std::move(spelling), id}); }
  /// After the last add(). Fails with ErrorKind::model_files if two are spelled the same; `file` is
  /// for the message.
  Status index(std::string_view file);

  std::optional<std::int32_t> find(std::string_view spelling) const;
  /// The leftmost one from `from` on, the longest of those that begin there.
  std::optional<Occurrence> find_in(std::string_view text, std::size_t from) const;

  std::uint64_t memory_bytes() const;

 private:
  struct Named {
    std::string spelling;
    std::int32_t id;
  };
  std::vector<Named> all_;          // sorted by spelling
  std::vector<std::size_t> sizes_;  // the different lengths of spellings, longest first
  std::array<bool, 256> starts_{};  // first bytes of spellings
};

}  // namespace sluice::text
