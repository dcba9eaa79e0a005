#include "store/gguf_values.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

namespace sluice::store {
namespace {

constexpr std::uint64_t kMaxKeyBytes = 65535;
constexpr int kMaxArrayDepth = 4;

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7F; });
}

}  // namespace

bool GgufValues::read(std::uint64_t number) {
  std::set<std::string, std::less<>> seen;
  for (std::uint64_t i = 0; i < number; ++i) {
    Metadata::Entry entry;
    std::uint64_t size = 0;
    if (!cursor_.take_text(entry.key, size, kMaxKeyBytes, "a metadata key")) return false;
    entry.key_bytes = static_cast<std::uint32_t>(size);
    const std::string key(cursor_.text(entry.key, size));
    if (key.empty() || !is_printable(key)) {
      cursor_.damaged("metadata key number {} is {}, expected printable ASCII", i, shown(key));
    }
    if (!seen.insert(key).second) cursor_.damaged("metadata key {} is there twice", shown(key));
    if (!take_type(entry.type, key) || !read_value(entry, key)) return false;
    entries_.push_back(entry);
  }
  return true;
}

bool GgufValues::take_type(ValueType& type, std::string_view key) {
  std::uint32_t number = 0;
  if (!cursor_.take(number, "the type of a metadata value")) return false;
  if (number < kValueTypes) {
    type = static_cast<ValueType>(number);
    return true;
  }
  cursor_.damaged("metadata {}: type {} is none of the {} that GGUF has", shown(key), number,
                  kValueTypes);
  return false;
}

bool GgufValues::read_value(Metadata::Entry& entry, std::string_view key) {
  if (entry.type != ValueType::array) {
    entry.value = cursor_.at();
    return skip_values(entry.type, 1, key);
  }
  if (!take_type(entry.element, key) ||
      !cursor_.take(entry.count, "the length of a metadata array")) {
    return false;
  }
  entry.value = cursor_.at();
  return skip_values(entry.element, entry.count, key, 1);
}

bool GgufValues::skip_values(ValueType type, std::uint64_t count, std::string_view key, int depth) {
  if (const std::uint64_t each = bytes_of(type); each > 0) {
    if (count > cursor_.file_bytes() / each || !cursor_.available(count * each)) {
      return cursor_.broke_off(fmt::format("metadata {} ({} values)", shown(key), count));
    }
    if (type == ValueType::boolean) check_booleans(count, key);
    cursor_.skip(count * each);
    return true;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    if (type == ValueType::string) {
      std::uint64_t offset = 0;
      std::uint64_t size = 0;
      if (!cursor_.take_text(offset, size, cursor_.file_bytes(), "a metadata string")) return false;
      continue;
    }
    ValueType element = ValueType::u8;
    std::uint64_t inner = 0;
    if (!take_type(element, key) || !cursor_.take(inner, "the length of a metadata array"))
      return false;
    if (depth >= kMaxArrayDepth) {
      cursor_.damaged("metadata {}: arrays nested more than {} deep", shown(key), kMaxArrayDepth);
      return false;
    }
    if (!skip_values(element, inner, key, depth + 1)) return false;
  }
  return true;
}

void GgufValues::check_booleans(std::uint64_t count, std::string_view key) {
  const auto wrong = std::ranges::find_if(cursor_.text(cursor_.at(), count),
                                          [](char c) { return c != 0 && c != 1; });
  if (wrong != cursor_.text(cursor_.at(), count).end()) {
    cursor_.damaged("metadata {}: a BOOL is stored as {}, expected 0 or 1", shown(key),
                    static_cast<unsigned>(static_cast<unsigned char>(*wrong)));
  }
}

std::optional<std::uint64_t> GgufValues::whole(std::string_view key, ValueType expected) {
  for (const Metadata::Entry& entry : entries_) {
    if (cursor_.text(entry.key, entry.key_bytes) != key) continue;
    if (entry.type != expected) {
      cursor_.damaged("metadata {}: expected {}, found {}", key, name_of(expected),
                      name_of(entry.type));
      return std::nullopt;
    }
    std::uint64_t value = 0;  // little-endian
    std::memcpy(&value, cursor_.bytes().data() + entry.value, bytes_of(expected));
    return value;
  }
  return std::nullopt;
}

}  // namespace sluice::store
