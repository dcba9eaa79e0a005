#include "text/token_index.h"

#include <algorithm>
#include <string_view>

namespace sluice::text {
namespace {

// Comparisons of ways to read, at most, before a state is given up: less than a second. One way
// through a whole vocabulary takes about a hundredth of it.
constexpr std::size_t kMostWork = 100'000'000;

}  // namespace

TokenIndex::TokenIndex(const Tokenizer& tokenizer)
    : tokenizer_(&tokenizer), quoted_(sorted(true)), unquoted_(sorted(false)) {}

TokenIndex::Entries TokenIndex::sorted(bool quoted) const {
  Entries entries;
  const auto take = [&](auto&& action) {
    for (std::size_t at = 0; at < tokenizer_->vocabulary(); ++at) {
      const auto id = static_cast<std::int32_t>(at);
      const std::string_view bytes = tokenizer_->bytes_of(id);
      if (bytes.empty() || tokenizer_->is_special(id)) continue;
      if ((bytes.find('"') != std::string_view::npos) == quoted) action(id);
    }
  };
  std::size_t count = 0;
  take([&](std::int32_t) { ++count; });
  entries.reserve(count);
  take([&](std::int32_t id) { entries.push_back({id, 0}); });
  std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    return tokenizer_->bytes_of(a.id) < tokenizer_->bytes_of(b.id);
  });
  for (std::size_t i = 1; i < entries.size(); ++i) {
    const std::string_view before = tokenizer_->bytes_of(entries[i - 1].id);
    const std::string_view bytes = tokenizer_->bytes_of(entries[i].id);
    const auto end = std::mismatch(before.begin(), before.end(), bytes.begin(), bytes.end());
    entries[i].shared = static_cast<std::uint16_t>(end.first - before.begin());
  }
  return entries;
}

bool TokenIndex::allow(const Entries& entries, const GrammarState& state, TokenMask& mask) const {
  std::vector<GrammarState> path = {state};  // path[n]: after n bytes of the entry
  std::size_t alive = 0;                     // bytes of the entry before that fit
  std::size_t work = 0;
  for (const Entry& entry : entries) {
    if (entry.shared > alive) continue;  // it has the byte that did not fit
    const std::string_view bytes = tokenizer_->bytes_of(entry.id);
    for (alive = entry.shared; alive < bytes.size(); ++alive) {
      if (path.size() == alive + 1) path.push_back(path.back());
      const auto symbol = static_cast<unsigned char>(bytes[alive]);
      const bool fits = path[alive].step(symbol, path[alive + 1]);
      work += path[alive].ways() * (path[alive + 1].ways() + 1);
      if (path[alive + 1].is_too_ambiguous() || work > kMostWork) return false;
      if (!fits) break;
    }
    if (alive == bytes.size()) mask.allow(entry.id);
  }
  return true;
}

std::uint64_t TokenIndex::memory_bytes() const {
  return sizeof(*this) + (quoted_.capacity() + unquoted_.capacity()) * sizeof(Entry);
}

}  // namespace sluice::text
