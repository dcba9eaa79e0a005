// The metadata of a GGUF file, walked through and checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "store/gguf_cursor.h"
#include "store/metadata.h"

namespace sluice::store {

/// Finds where each value is. A member that returns false has found that the header breaks off;
/// what is wrong within its bounds is a fault, and the walk goes on.
class GgufValues {
 public:
  explicit GgufValues(GgufCursor& cursor) : cursor_(cursor) {}

  /// Reads `number` keys and values from the cursor's place on.
  bool read(std::uint64_t number);

  /// The value of a whole number, if it is there; of another type than `expected` it is a fault.
  std::optional<std::uint64_t> whole(std::string_view key, ValueType expected);

  std::vector<Metadata::Entry> take_entries() { return std::move(entries_); }

 private:
  bool take_type(ValueType& type, std::string_view key);
  bool read_value(Metadata::Entry& entry, std::string_view key);
  /// Goes past `count` values of a type, and checks them.
  bool skip_values(ValueType type, std::uint64_t count, std::string_view key, int depth = 0);
  void check_booleans(std::uint64_t count, std::string_view key);

  GgufCursor& cursor_;
  std::vector<Metadata::Entry> entries_;
};

}  // namespace sluice::store
