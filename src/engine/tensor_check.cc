#include "engine/tensor_check.h"

#include <cstring>
#include <utility>
#include <vector>

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

/// Where a block of GGUF's has its scales, float16 numbers, or one byte of MXFP4's.
std::vector<std::size_t> scales_in_block(DType dtype) {
  switch (dtype) {
    case DType::q4_0:
    case DType::q5_0:
    case DType::q8_0:
    case DType::iq4_nl:
    case DType::iq4_xs:
    case DType::mxfp4:
      return {0};
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
      return {0, 2};
    case DType::q2_k:
      return {80, 82};
    case DType::q3_k:
      return {108};
    case DType::q6_k:
      return {208};
    default:
      return {};
  }
}

/// Of whole blocks; `first` is in bytes.
Found find_bad_blocks(DType dtype, std::span<const std::byte> bytes) {
  Found found;
  const std::vector<std::size_t> scales = scales_in_block(dtype);
  const std::size_t size = dtype == DType::mxfp4 ? 1 : sizeof(std::uint16_t);
  for (std::size_t block = 0; block < bytes.size(); block += bytes_of(dtype)) {
    for (const std::size_t scale : scales) {
      const auto part = bytes.subspan(block + scale, size);
      const bool bad = dtype == DType::mxfp4 ? count_all_ones<std::uint8_t>(part, 0xFF) > 0
                                             : count_all_ones<std::uint16_t>(part, 0x7C00) > 0;
      if (bad && found.count++ == 0) found.first = block + scale;
    }
  }
  return found;
}

}  // namespace

void TensorCheck::add(const store::Tensor& tensor, bool scale, std::uint64_t at,
                      std::span<const std::byte> bytes) {
  const bool blocks = !scale && elements_of(tensor.dtype) > 1;
  const Found found =
      blocks ? find_bad_blocks(tensor.dtype, bytes) : find_bad(tensor.dtype, scale, bytes);
  const std::size_t step = blocks ? 1 : bytes_of(tensor.dtype);
  if (found.count > 0 && bad_ == 0) first_bad_ = at + found.first * step;
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
  return fmt::format("{} of its {} {} {} NaN or infinite, the first at offset {}", bad,
                     name_of(tensor.dtype), elements_of(tensor.dtype) > 1 ? "scales" : "values",
                     bad == 1 ? "is" : "are", offset);
}

}  // namespace sluice::engine
