// What a GGUF file says about its model: named values of declared types.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"

namespace sluice::store {

/// Type of a metadata value, by GGUF's numbers.
enum class ValueType : std::uint8_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};
inline constexpr std::uint32_t kValueTypes = 13;
/// "UINT32", "STRING", ...
std::string_view name_of(ValueType type);

/// The metadata of a file: its bytes as they were read and checked, and where in them each value
/// is.
class Metadata {
 public:
  struct Entry {
    std::uint64_t key = 0;  ///< offset of the key's characters
    std::uint32_t key_bytes = 0;
    ValueType type = ValueType::u8;
    ValueType element = ValueType::u8;  ///< of an array
    std::uint64_t count = 1;            ///< elements of an array; else 1
    std::uint64_t value = 0;            ///< offset of the value, or of an array's first element
  };

  Metadata() = default;
  /// `bytes` are checked: every entry lies inside of them.
  Metadata(std::string file, std::string bytes, std::vector<Entry> entries);

  /// The file's name, for messages.
  const std::string& file() const { return file_; }
  std::size_t size() const { return entries_.size(); }
  std::string_view key(std::size_t index) const { return key_of(entries_[index]); }
  const Entry* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

  /// A whole number, whatever its stored width; ErrorKind::model_files if missing, of another kind
  /// or outside [least, most]. Missing: `absent`, where one is given.
  Result<std::uint64_t> count(std::string_view key, std::uint64_t least, std::uint64_t most,
                              std::optional<std::uint64_t> absent = std::nullopt) const;
  /// A finite number.
  Result<double> number(std::string_view key, std::optional<double> absent = std::nullopt) const;
  Result<bool> flag(std::string_view key, bool absent) const;
  /// Text, as it is stored: perhaps not UTF-8.
  Result<std::string_view> text(std::string_view key,
                                std::optional<std::string_view> absent = std::nullopt) const;

  /// The elements of an array of strings, in order. ErrorKind::model_files if the key is missing or
  /// anything else; `visit` may end it with an error.
  Status for_each_text(std::string_view key,
                       FunctionRef<Status(std::uint64_t index, std::string_view text)> visit) const;
  /// The elements of an array of whole numbers.
  Status for_each_integer(std::string_view key,
                          FunctionRef<Status(std::uint64_t index, std::int64_t value)> visit) const;
  /// The elements of an array of float32.
  Status for_each_number(std::string_view key,
                         FunctionRef<Status(std::uint64_t index, float value)> visit) const;

  std::uint64_t memory_bytes() const;

 private:
  std::string_view key_of(const Entry& entry) const;
  std::optional<std::int64_t> integer_at(ValueType type, std::uint64_t offset) const;
  std::string_view text_at(std::uint64_t offset) const;
  Result<const Entry*> array_of(std::string_view key, std::string_view what) const;

  std::string file_;
  std::string bytes_;
  std::vector<Entry> entries_;  // sorted by key
};

/// Bytes of a value of a fixed size; 0 for strings and arrays.
constexpr std::uint64_t bytes_of(ValueType type) {
  switch (type) {
    case ValueType::u8:
    case ValueType::i8:
    case ValueType::boolean:
      return 1;
    case ValueType::u16:
    case ValueType::i16:
      return 2;
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::f32:
      return 4;
    case ValueType::u64:
    case ValueType::i64:
    case ValueType::f64:
      return 8;
    case ValueType::string:
    case ValueType::array:
      return 0;
  }
  return 0;
}

}  // namespace sluice::store
