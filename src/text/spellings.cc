#include "text/spellings.h"

#include <algorithm>
#include <functional>

namespace sluice::text {

Status Spellings::index(std::string_view file) {
  for (const Named& named : all_) {
    sizes_.push_back(named.spelling.size());
    starts_[static_cast<std::uint8_t>(named.spelling[0])] = true;
  }
  std::sort(sizes_.begin(), sizes_.end(), std::greater<>());
  sizes_.erase(std::unique(sizes_.begin(), sizes_.end()), sizes_.end());
  sizes_.shrink_to_fit();
  std::ranges::sort(all_, {}, &Named::spelling);
  const auto twin = std::ranges::adjacent_find(all_, {}, &Named::spelling);
  if (twin == all_.end()) return {};
  return fail(ErrorKind::model_files, "{}: special tokens {} and {} are both spelled \"{}\"", file,
              std::min(twin[0].id, twin[1].id), std::max(twin[0].id, twin[1].id), twin->spelling);
}

std::optional<std::int32_t> Spellings::find(std::string_view spelling) const {
  const auto at = std::ranges::lower_bound(
      all_, spelling, {}, [](const Named& named) { return std::string_view(named.spelling); });
  if (at == all_.end() || at->spelling != spelling) return std::nullopt;
  return at->id;
}

std::optional<Spellings::Occurrence> Spellings::find_in(std::string_view text,
                                                        std::size_t from) const {
  for (std::size_t at = from; at < text.size(); ++at) {
    if (!starts_[static_cast<std::uint8_t>(text[at])]) continue;
    for (const std::size_t size : sizes_) {
      if (size > text.size() - at) continue;
      if (const auto id = find(text.substr(at, size))) return Occurrence{at, size, *id};
    }
  }
  return std::nullopt;
}

std::uint64_t Spellings::memory_bytes() const {
  std::uint64_t sum = all_.capacity() * sizeof(Named) + sizes_.capacity() * sizeof(std::size_t);
  for (const Named& named : all_) {
    if (named.spelling.size() > 15) sum += named.spelling.capacity() + 1;  // not inside the string
  }
  return sum;
}

}  // namespace sluice::text
