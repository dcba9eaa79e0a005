#include "store/tensor_table.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "base/clock.h"

namespace sluice::store {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The value of a run of digits that prints as the same digits again, if it fits.
std::optional<std::uint32_t> number_of(std::string_view digits) {
  if (digits.size() > 1 && digits.front() == '0') return std::nullopt;
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

}  // namespace

void NameParts::take_apart(std::string_view name) {
  pattern.clear();
  numbers.fill(0);
  std::size_t taken = 0;
  for (std::size_t at = 0; at < name.size();) {
    std::size_t end = at;
    while (end < name.size() && !is_digit(name[end])) ++end;
    pattern.append(name, at, end - at);
    at = end;
    while (end < name.size() && is_digit(name[end])) ++end;
    const std::string_view digits = name.substr(at, end - at);
    at = end;
    const auto number = taken < kNumbers ? number_of(digits) : std::nullopt;
    if (number) {
      numbers[taken++] = *number;
      pattern += kSlot;
    } else {
      pattern += digits;
    }
  }
}

void NameParts::join(std::string_view pattern, const std::array<std::uint32_t, kNumbers>& numbers,
                     std::string& to) {
  to.clear();
  std::size_t taken = 0;
  for (const char c : pattern) {
    if (c == kSlot) {
      std::array<char, 10> digits;
      const auto [end, error] =
          std::to_chars(digits.data(), digits.data() + digits.size(), numbers[taken++]);
      to.append(digits.data(), end);
    } else {
      to += c;
    }
  }
}

TensorTable::TensorTable()
    : seed_(static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()) ^
            reinterpret_cast<std::uintptr_t>(this)) {}

void TensorTable::reserve(std::uint32_t tensors) {
  entries_.reserve(tensors);
  by_name_.reserve(tensors);
}

void TensorTable::begin_file() { file_starts_.push_back(size()); }

TensorTable::Added TensorTable::add(std::string_view name, DType dtype, const Shape& shape,
                                    std::uint64_t offset) {
  SLUICE_CHECK(!file_starts_.empty() && size() < kMaxTensors);
  scratch_.take_apart(name);
  const std::uint32_t pattern = pattern_id(scratch_.pattern);
  const std::uint64_t hash = hash_parts(pattern, scratch_.numbers);
  if (const auto known = find_parts(hash, pattern, scratch_)) return {*known, false};
  entries_.push_back({offset, pattern, kind_id(dtype, shape), scratch_.numbers});
  by_name_.insert_next(hash, [this](std::uint32_t id) {
    return hash_parts(entries_[id].pattern, entries_[id].numbers);
  });
  return {size() - 1, true};
}

std::optional<std::uint32_t> TensorTable::find(std::string_view name) const {
  return Finder(*this).find(name);
}

std::optional<std::uint32_t> TensorTable::Finder::find(std::string_view name) {
  if (name.find(NameParts::kSlot) != std::string_view::npos) return std::nullopt;
  parts_.take_apart(name);
  const auto pattern = table_.find_pattern(parts_.pattern);
  if (!pattern) return std::nullopt;
  for (const std::uint32_t guess : {last_ + 1, last_ - 1}) {
    if (guess < table_.size() && table_.has_parts(guess, *pattern, parts_)) return last_ = guess;
  }
  const std::uint64_t hash = table_.hash_parts(*pattern, parts_.numbers);
  const auto found = table_.find_parts(hash, *pattern, parts_);
  if (found) last_ = *found;
  return found;
}

Tensor TensorTable::tensor(std::uint32_t index) const {
  const Entry& entry = entries_[index];
  const Kind& kind = kinds_[entry.kind];
  Tensor tensor;
  tensor.dtype = kind.dtype;
  tensor.shape = kind.shape;
  tensor.file = file_of(index);
  tensor.offset = entry.offset;
  std::uint64_t elements = 1;
  for (const std::uint64_t size : kind.shape.sizes()) elements *= size;  // checked on reading
  tensor.bytes = elements / elements_of(kind.dtype) * bytes_of(kind.dtype);
  return tensor;
}

std::uint32_t TensorTable::file_of(std::uint32_t index) const {
  const auto next = std::upper_bound(file_starts_.begin(), file_starts_.end(), index);
  return static_cast<std::uint32_t>(next - file_starts_.begin()) - 1;
}

std::string TensorTable::name(std::uint32_t index) const {
  std::string text;
  name(index, text);
  return text;
}

void TensorTable::name(std::uint32_t index, std::string& to) const {
  const Entry& entry = entries_[index];
  NameParts::join(pattern(entry.pattern), entry.numbers, to);
}

void TensorTable::shrink() {
  entries_.shrink_to_fit();
  file_starts_.shrink_to_fit();
  pattern_text_.shrink_to_fit();
  pattern_ends_.shrink_to_fit();
  kinds_.shrink_to_fit();
  scratch_ = {};
}

std::uint64_t TensorTable::memory_bytes() const {
  return sizeof(*this) + entries_.capacity() * sizeof(Entry) +
         file_starts_.capacity() * sizeof(file_starts_[0]) + by_name_.memory_bytes() +
         pattern_text_.capacity() + pattern_ends_.capacity() * sizeof(pattern_ends_[0]) +
         by_pattern_.memory_bytes() + kinds_.capacity() * sizeof(Kind) + by_kind_.memory_bytes();
}

std::string_view TensorTable::pattern(std::uint32_t id) const {
  const std::uint64_t begin = id == 0 ? 0 : pattern_ends_[id - 1];
  return std::string_view(pattern_text_).substr(begin, pattern_ends_[id] - begin);
}

std::optional<std::uint32_t> TensorTable::find_pattern(std::string_view text) const {
  return by_pattern_.find(hash_bytes(text.data(), text.size()),
                          [&](std::uint32_t id) { return pattern(id) == text; });
}

std::uint32_t TensorTable::pattern_id(std::string_view text) {
  if (const auto known = find_pattern(text)) return *known;
  pattern_text_ += text;
  pattern_ends_.push_back(pattern_text_.size());
  by_pattern_.insert_next(hash_bytes(text.data(), text.size()), [this](std::uint32_t id) {
    const std::string_view key = pattern(id);
    return hash_bytes(key.data(), key.size());
  });
  return static_cast<std::uint32_t>(pattern_ends_.size() - 1);
}

std::uint32_t TensorTable::kind_id(DType dtype, const Shape& shape) {
  const Kind kind{shape, dtype};
  const std::uint64_t hash = hash_kind(kind);
  const auto known = by_kind_.find(hash, [&](std::uint32_t id) {
    return kinds_[id].dtype == dtype && kinds_[id].shape == shape;
  });
  if (known) return *known;
  kinds_.push_back(kind);
  by_kind_.insert_next(hash, [this](std::uint32_t id) { return hash_kind(kinds_[id]); });
  return static_cast<std::uint32_t>(kinds_.size() - 1);
}

std::uint64_t TensorTable::hash_bytes(const void* data, std::size_t size) const {
  return XXH3_64bits_withSeed(data, size, seed_);
}

std::uint64_t TensorTable::hash_parts(
    std::uint32_t pattern, const std::array<std::uint32_t, NameParts::kNumbers>& numbers) const {
  std::array<std::uint32_t, NameParts::kNumbers + 1> key;
  key[0] = pattern;
  std::copy(numbers.begin(), numbers.end(), key.begin() + 1);
  return hash_bytes(key.data(), sizeof(key));
}

std::uint64_t TensorTable::hash_kind(const Kind& kind) const {
  std::array<std::uint64_t, kMaxDimensions + 1> key;
  key[0] = static_cast<std::uint64_t>(kind.dtype) << 8 | kind.shape.rank;
  std::copy(kind.shape.size.begin(), kind.shape.size.end(), key.begin() + 1);
  return hash_bytes(key.data(), sizeof(key));
}

bool TensorTable::has_parts(std::uint32_t index, std::uint32_t pattern,
                            const NameParts& parts) const {
  return entries_[index].pattern == pattern && entries_[index].numbers == parts.numbers;
}

std::optional<std::uint32_t> TensorTable::find_parts(std::uint64_t hash, std::uint32_t pattern,
                                                     const NameParts& parts) const {
  return by_name_.find(hash, [&](std::uint32_t id) { return has_parts(id, pattern, parts); });
}

}  // namespace sluice::store
