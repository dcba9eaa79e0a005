#include "store/metadata.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "store/faults.h"

namespace sluice::store {
namespace {

template <class T>
T load(const std::string& bytes, std::uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

}  // namespace

std::string_view name_of(ValueType type) {
  switch (type) {
    case ValueType::u8:
      return "UINT8";
    case ValueType::i8:
      return "INT8";
    case ValueType::u16:
      return "UINT16";
    case ValueType::i16:
      return "INT16";
    case ValueType::u32:
      return "UINT32";
    case ValueType::i32:
      return "INT32";
    case ValueType::f32:
      return "FLOAT32";
    case ValueType::boolean:
      return "BOOL";
    case ValueType::string:
      return "STRING";
    case ValueType::array:
      return "ARRAY";
    case ValueType::u64:
      return "UINT64";
    case ValueType::i64:
      return "INT64";
    case ValueType::f64:
      return "FLOAT64";
  }
  return "?";
}

Metadata::Metadata(std::string file, std::string bytes, std::vector<Entry> entries)
    : file_(std::move(file)), bytes_(std::move(bytes)), entries_(std::move(entries)) {
  std::ranges::sort(entries_, {}, [this](const Entry& entry) { return key_of(entry); });
}

std::string_view Metadata::key_of(const Entry& entry) const {
  return std::string_view(bytes_).substr(entry.key, entry.key_bytes);
}

std::string_view Metadata::text_at(std::uint64_t offset) const {
  const auto size = load<std::uint64_t>(bytes_, offset);
  return std::string_view(bytes_).substr(offset + sizeof(size), size);
}

const Metadata::Entry* Metadata::find(std::string_view key) const {
  const auto at = std::ranges::lower_bound(entries_, key, {},
                                           [this](const Entry& entry) { return key_of(entry); });
  return at != entries_.end() && key_of(*at) == key ? &*at : nullptr;
}

std::optional<std::int64_t> Metadata::integer_at(ValueType type, std::uint64_t offset) const {
  switch (type) {
    case ValueType::u8:
      return load<std::uint8_t>(bytes_, offset);
    case ValueType::i8:
      return load<std::int8_t>(bytes_, offset);
    case ValueType::u16:
      return load<std::uint16_t>(bytes_, offset);
    case ValueType::i16:
      return load<std::int16_t>(bytes_, offset);
    case ValueType::u32:
      return load<std::uint32_t>(bytes_, offset);
    case ValueType::i32:
      return load<std::int32_t>(bytes_, offset);
    case ValueType::i64:
      return load<std::int64_t>(bytes_, offset);
    case ValueType::u64: {
      const auto value = load<std::uint64_t>(bytes_, offset);
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return {};
      return static_cast<std::int64_t>(value);
    }
    case ValueType::f32:
    case ValueType::f64:
    case ValueType::boolean:
    case ValueType::string:
    case ValueType::array:
      break;
  }
  return std::nullopt;
}

Result<std::uint64_t> Metadata::count(std::string_view key, std::uint64_t least, std::uint64_t most,
                                      std::optional<std::uint64_t> absent) const {
  const Entry* const entry = find(key);
  if (entry == nullptr) {
    if (absent) return *absent;
    return fail(ErrorKind::model_files, "{}: metadata {}: missing", file_, key);
  }
  const auto value = integer_at(entry->type, entry->value);
  if (!value || *value < 0 || static_cast<std::uint64_t>(*value) < least ||
      static_cast<std::uint64_t>(*value) > most) {
    return fail(ErrorKind::model_files,
                "{}: metadata {}: expected a whole number from {} to {}, found {}", file_, key,
                least, most, value ? std::to_string(*value) : std::string(name_of(entry->type)));
  }
  return static_cast<std::uint64_t>(*value);
}

Result<double> Metadata::number(std::string_view key, std::optional<double> absent) const {
  const Entry* const entry = find(key);
  if (entry == nullptr) {
    if (absent) return *absent;
    return fail(ErrorKind::model_files, "{}: metadata {}: missing", file_, key);
  }
  std::optional<double> value;
  if (entry->type == ValueType::f32) value = load<float>(bytes_, entry->value);
  if (entry->type == ValueType::f64) value = load<double>(bytes_, entry->value);
  if (const auto integer = integer_at(entry->type, entry->value)) {
    value = static_cast<double>(*integer);
  }
  if (!value || !std::isfinite(*value)) {
    return fail(ErrorKind::model_files, "{}: metadata {}: expected a number, found {}", file_, key,
                value ? "one that is not finite" : name_of(entry->type));
  }
  return *value;
}

Result<bool> Metadata::flag(std::string_view key, bool absent) const {
  const Entry* const entry = find(key);
  if (entry == nullptr) return absent;
  if (entry->type != ValueType::boolean) {
    return fail(ErrorKind::model_files, "{}: metadata {}: expected a BOOL, found {}", file_, key,
                name_of(entry->type));
  }
  return bytes_[entry->value] != 0;
}

Result<std::string_view> Metadata::text(std::string_view key,
                                        std::optional<std::string_view> absent) const {
  const Entry* const entry = find(key);
  if (entry == nullptr) {
    if (absent) return *absent;
    return fail(ErrorKind::model_files, "{}: metadata {}: missing", file_, key);
  }
  if (entry->type != ValueType::string) {
    return fail(ErrorKind::model_files, "{}: metadata {}: expected a STRING, found {}", file_, key,
                name_of(entry->type));
  }
  return text_at(entry->value);
}

Result<const Metadata::Entry*> Metadata::array_of(std::string_view key,
                                                  std::string_view what) const {
  const Entry* const entry = find(key);
  if (entry == nullptr) {
    return fail(ErrorKind::model_files, "{}: metadata {}: missing", file_, key);
  }
  if (entry->type == ValueType::array) return entry;
  return fail(ErrorKind::model_files, "{}: metadata {}: expected an ARRAY of {}, found {}", file_,
              key, what, name_of(entry->type));
}

Status Metadata::for_each_text(
    std::string_view key,
    FunctionRef<Status(std::uint64_t index, std::string_view text)> visit) const {
  SLUICE_ASSIGN(const Entry* const entry, array_of(key, "STRING"));
  if (entry->element != ValueType::string) {
    return fail(ErrorKind::model_files, "{}: metadata {}: expected an ARRAY of STRING, found {}",
                file_, key, name_of(entry->element));
  }
  std::uint64_t offset = entry->value;
  for (std::uint64_t i = 0; i < entry->count; ++i) {
    const std::string_view text = text_at(offset);
    SLUICE_TRY(visit(i, text));
    offset += sizeof(std::uint64_t) + text.size();
  }
  return {};
}

Status Metadata::for_each_integer(
    std::string_view key,
    FunctionRef<Status(std::uint64_t index, std::int64_t value)> visit) const {
  SLUICE_ASSIGN(const Entry* const entry, array_of(key, "whole numbers"));
  for (std::uint64_t i = 0; i < entry->count; ++i) {
    const auto value = integer_at(entry->element, entry->value + i * bytes_of(entry->element));
    if (!value) {
      return fail(ErrorKind::model_files,
                  "{}: metadata {}: expected an ARRAY of whole numbers, found {}", file_, key,
                  name_of(entry->element));
    }
    SLUICE_TRY(visit(i, *value));
  }
  return {};
}

Status Metadata::for_each_number(
    std::string_view key, FunctionRef<Status(std::uint64_t index, float value)> visit) const {
  SLUICE_ASSIGN(const Entry* const entry, array_of(key, "FLOAT32"));
  if (entry->element != ValueType::f32) {
    return fail(ErrorKind::model_files, "{}: metadata {}: expected an ARRAY of FLOAT32, found {}",
                file_, key, name_of(entry->element));
  }
  for (std::uint64_t i = 0; i < entry->count; ++i) {
    SLUICE_TRY(visit(i, load<float>(bytes_, entry->value + i * sizeof(float))));
  }
  return {};
}

std::uint64_t Metadata::memory_bytes() const {
  return sizeof(*this) + file_.capacity() + bytes_.capacity() + entries_.capacity() * sizeof(Entry);
}

}  // namespace sluice::store
