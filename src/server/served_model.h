// The model as requests see it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/drive_limits.h"
#include "server/grammar_room.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace sluice::server {

/// What an answer holds and then writes of one token, with so many of the likeliest: some 80 bytes
/// of text for each, before that a pair of numbers.
constexpr std::uint64_t told_bytes(std::size_t likeliest) { return (1 + likeliest) * 128; }
inline constexpr std::uint64_t kMostToldBytes = std::uint64_t{8} << 20;
/// What an answer that tells nothing of its tokens holds and then writes of one, roughly.
inline constexpr std::uint64_t kAnswerTokenBytes = 16;

struct ServedModel {
  std::string name;                   ///< "k3-nano"
  std::vector<std::string> adapters;  ///< names of those that requests may ask for, too
  std::vector<std::uint64_t> adapter_digests;
  const text::Tokenizer* tokenizer = nullptr;
  std::optional<text::ChatFormat> format;  ///< none: no chat
  std::string no_chat;                     ///< why, then
  std::size_t context = 0;                 ///< positions: prompt and answer together
  std::size_t vocabulary = 0;
  const GrammarRoom* grammars = nullptr;
  std::uint64_t told_bytes = kMostToldBytes;  ///< of a request's answers (check_answer_room())
  std::int64_t created = 0;                   ///< when it was loaded, seconds since 1970
  std::vector<DriveLimit> drive_limits;

  /// What a request of this name is computed with: an adapter, counted from 1, or 0: the model as
  /// it is. None if nothing has the name.
  std::optional<std::uint32_t> find(std::string_view asked) const {
    if (asked == name) return 0;
    for (std::uint32_t i = 0; i < adapters.size(); ++i) {
      if (asked == adapters[i]) return i + 1;
    }
    return std::nullopt;
  }
  /// For answers that are kept: another adapter under the same name gives another answer.
  std::uint64_t key_of(std::uint64_t request, std::uint32_t adapter) const {
    return adapter == 0 ? request : request ^ adapter_digests[adapter - 1];
  }
  const std::string& name_of(std::uint32_t adapter) const {
    return adapter == 0 ? name : adapters[adapter - 1];
  }
};

}  // namespace sluice::server
