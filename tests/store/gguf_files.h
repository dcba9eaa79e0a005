// GGUF files made in memory, well-formed or not.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "store/metadata.h"

namespace sluice::store {

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}
inline std::string raw_text(std::string_view text) {
  return raw(std::uint64_t{text.size()}) + std::string(text);
}
inline std::string raw_type(ValueType type) { return raw(static_cast<std::uint32_t>(type)); }

/// Collects a file's parts; every one can be set to something wrong.
struct GgufFile {
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::vector<std::string> values;
  std::vector<std::string> tensors;
  std::string data;
  std::size_t alignment = 32;

  GgufFile& value(std::string_view key, ValueType type, const std::string& bytes) {
    values.push_back(raw_text(key) + raw_type(type) + bytes);
    return *this;
  }
  GgufFile& text(std::string_view key, std::string_view text) {
    return value(key, ValueType::string, raw_text(text));
  }
  GgufFile& u32(std::string_view key, std::uint32_t number) {
    return value(key, ValueType::u32, raw(number));
  }

  /// `sizes`: innermost first, as in the file. `type`: GGUF's number.
  GgufFile& tensor_at(std::string_view name, const std::vector<std::uint64_t>& sizes,
                      std::uint32_t type, std::uint64_t offset) {
    std::string bytes = raw_text(name) + raw(static_cast<std::uint32_t>(sizes.size()));
    for (const std::uint64_t size : sizes) bytes += raw(size);
    tensors.push_back(bytes + raw(type) + raw(offset));
    return *this;
  }
  /// The same with `bytes` bytes of data behind what is there.
  GgufFile& tensor(std::string_view name, const std::vector<std::uint64_t>& sizes,
                   std::uint32_t type, std::size_t bytes) {
    data.resize((data.size() + alignment - 1) / alignment * alignment);
    tensor_at(name, sizes, type, data.size());
    data.resize(data.size() + bytes, '\x11');
    return *this;
  }

  std::string header() const {
    std::string bytes = magic + raw(version) + raw(std::uint64_t{tensors.size()}) +
                        raw(std::uint64_t{values.size()});
    for (const std::string& value : values) bytes += value;
    for (const std::string& tensor : tensors) bytes += tensor;
    return bytes;
  }
  std::string bytes() const {
    std::string all = header();
    all.resize((all.size() + alignment - 1) / alignment * alignment);
    return all + data;
  }
};

inline constexpr std::uint32_t kGgmlF32 = 0;
inline constexpr std::uint32_t kGgmlQ4_0 = 2;
inline constexpr std::uint32_t kGgmlQ4K = 12;

}  // namespace sluice::store
