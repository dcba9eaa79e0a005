#include "engine/tensor_check.h"

#include <cstring>
#include <utility>

namespace sluice::engine {
namespace {

/// Elements whose bits under `mask` are all ones: of a float's exponent, infinity and NaN.
template <class Element>
std::uint64_t count_all_ones(std::span<const std::byte> bytes, Element mask) {
  std::uint64_t count = 0;
  const std::size_t elements = bytes.size() / sizeof(Element);
  for (std::size_t i = 0; i < elements; ++i) {
    Element element;
    std::memcpy(&element, bytes.data() + i * sizeof(Element), sizeof(Element));
    count += (element & mask) == mask ? 1 : 0;
  }
  return count;
}

template <class Element>
std::size_t first_all_ones(std::span<const std::byte> bytes, Element mask) {
  std::size_t i = 0;
  for (;; ++i) {
    Element element;
    std::memcpy(&element, bytes.data() + i * sizeof(Element), sizeof(Element));
    if ((element & mask) == mask) return i;
  }
}

struct Found {
  std::uint64_t count = 0;
  std::size_t first = 0;
};

template <class Element>
Found find(std::span<const std::byte> bytes, Element mask) {
  const std::uint64_t count = count_all_ones(bytes, mask);
  return {count, count > 0 ? first_all_ones(bytes, mask) : 0};
}

Found find_bad(DType dtype, bool scale, std::span<const std::byte> bytes) {
  if (scale) return find<std::uint8_t>(bytes, 0xFF);
  switch (dtype) {
    case DType::bf16:
      return find<std::uint16_t>(bytes, 0x7F80);
    case DType::f16:
      return find<std::uint16_t>(bytes, 0x7C00);
    case DType::f8_e4m3:
      return find<std::uint8_t>(bytes, 0x7F);
    case DType::f32:
      return find<std::uint32_t>(bytes, 0x7F80'0000);
    default:
      return {};
  }
}

}  // namespace

void TensorCheck::add(const store::Tensor& tensor, bool scale, std::uint64_t at,
                      std::span<const std::byte> bytes) {
  const Found found = find_bad(tensor.dtype, scale, bytes);
  if (found.count > 0 && bad_ == 0) first_bad_ = at + found.first * bytes_of(tensor.dtype);
  bad_ += found.count;
}

std::optional<std::string> TensorCheck::take(const store::Tensor& tensor, bool scale) {
  const std::uint64_t bad = std::exchange(bad_, 0);
  if (bad == 0) return std::nullopt;
  const std::uint64_t offset = tensor.offset + first_bad_;
  if (scale) {
    return fmt::format(
        "{} of its scale bytes {} 255, which stands for no number in MXFP4, the first at offset {}",
        bad, bad == 1 ? "is" : "are", offset);
  }
  return fmt::format("{} of its {} values {} NaN or infinite, the first at offset {}", bad,
                     name_of(tensor.dtype), bad == 1 ? "is" : "are", offset);
}

}  // namespace sluice::engine
