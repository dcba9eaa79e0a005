#include "store/pack_stripes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/check.h"

namespace sluice::store {

Stripes::Stripes(std::uint64_t chunk_bytes, std::vector<std::uint8_t> deal, std::size_t parts)
    : chunk_bytes_(chunk_bytes), deal_(std::move(deal)), chunks_of_(parts, 0) {
  SLUICE_CHECK(chunk_bytes > 0 && chunk_bytes % 4096 == 0 && !deal_.empty());
  for (const std::uint8_t part : deal_) {
    SLUICE_CHECK(part < parts);
    rank_.push_back(static_cast<std::uint32_t>(chunks_of_[part]++));
  }
}

PartExtent Stripes::chunk(std::uint64_t index) const {
  const std::uint64_t round = index / deal_.size();
  const auto place = static_cast<std::size_t>(index % deal_.size());
  const std::uint32_t part = deal_[place];
  return {part, (round * chunks_of_[part] + rank_[place]) * chunk_bytes_, chunk_bytes_};
}

void Stripes::for_each(std::uint64_t offset, std::uint64_t length,
                       FunctionRef<void(std::uint64_t at, const PartExtent&)> visit) const {
  std::optional<PartExtent> piece;  // found and not yet visited; more may join it
  std::uint64_t piece_at = offset;
  const std::uint64_t end = offset + length;
  for (std::uint64_t at = offset; at < end;) {
    PartExtent next = chunk(at / chunk_bytes_);
    const std::uint64_t skip = at % chunk_bytes_;
    next.offset += skip;
    next.length = std::min(chunk_bytes_ - skip, end - at);
    if (piece && piece->part == next.part && piece->offset + piece->length == next.offset) {
      piece->length += next.length;
    } else {
      if (piece) visit(piece_at, *piece);
      piece = next;
      piece_at = at;
    }
    at += next.length;
  }
  if (piece) visit(piece_at, *piece);
}

std::uint64_t Stripes::part_bytes(std::size_t part, std::uint64_t stream_bytes) const {
  const std::uint64_t whole = stream_bytes / chunk_bytes_;
  const std::uint64_t tail = stream_bytes % chunk_bytes_;
  std::uint64_t chunks = whole / deal_.size() * chunks_of_[part];
  const auto rest = static_cast<std::size_t>(whole % deal_.size());
  for (std::size_t place = 0; place < rest; ++place) chunks += deal_[place] == part ? 1 : 0;
  return chunks * chunk_bytes_ + (deal_[rest] == part ? tail : 0);
}

namespace {

/// Chunks of each part in a deal: the ratios of the weights, to within one part in 96.
std::vector<int> shares_of(const std::vector<double>& weights) {
  constexpr double kResolution = 96;
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int> shares;
  for (const double weight : weights) {
    SLUICE_CHECK(std::isfinite(weight) && weight > 0);
    shares.push_back(static_cast<int>(std::lround(weight / sum * kResolution)));
  }
  int divisor = 0;
  for (const int share : shares) divisor = std::gcd(divisor, share);
  for (int& share : shares) share /= std::max(1, divisor);
  return shares;
}

}  // namespace

Deal deal_by_weight(const std::vector<double>& weights) {
  SLUICE_CHECK(!weights.empty() && weights.size() <= kMostParts);
  const bool equal = std::equal(weights.begin() + 1, weights.end(), weights.begin());
  const std::vector<int> shares = equal ? std::vector<int>(weights.size(), 1) : shares_of(weights);
  Deal deal;
  std::vector<std::uint8_t> number;  // by weight's place: the part's number among those used
  std::uint8_t used = 0;
  for (const int share : shares) {
    deal.used.push_back(share > 0);
    number.push_back(used);
    used = static_cast<std::uint8_t>(used + (share > 0 ? 1 : 0));
  }
  // Each step every part earns its share, and the one that has earned most is dealt a chunk.
  const int total = std::accumulate(shares.begin(), shares.end(), 0);
  std::vector<int> earned(shares.size(), 0);
  for (int step = 0; step < total; ++step) {
    for (std::size_t i = 0; i < shares.size(); ++i) earned[i] += shares[i];
    const auto most = std::max_element(earned.begin(), earned.end());
    *most -= total;
    deal.parts.push_back(number[static_cast<std::size_t>(most - earned.begin())]);
  }
  SLUICE_CHECK(!deal.parts.empty() && deal.parts.size() <= kMostDeal);
  return deal;
}

}  // namespace sluice::store
