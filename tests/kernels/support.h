// What the kernel tests share: every test runs on every instruction set of this machine.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/simd_targets.h"
// After simd_targets.h, which says what the kernels are compiled for.
#include <hwy/targets.h>

namespace sluice::kernels::test {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Runs a test on one instruction set, its parameter.
class KernelTest : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

inline std::string target_name(const testing::TestParamInfo<std::int64_t>& info) {
  return hwy::TargetName(info.param);
}

#define SLUICE_ON_ALL_TARGETS(Fixture)                                             \
  INSTANTIATE_TEST_SUITE_P(Target, Fixture,                                        \
                           testing::ValuesIn(hwy::SupportedAndGeneratedTargets()), \
                           ::sluice::kernels::test::target_name)

/// Numbers that are the same in every run.
class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}

  std::uint32_t bits() { return static_cast<std::uint32_t>(engine_()); }
  std::size_t below(std::size_t limit) { return bits() % limit; }
  /// Uniform in [low, high).
  float number(float low, float high) {
    return low + (high - low) * static_cast<float>(bits() >> 8) * 0x1p-24f;
  }
  std::vector<float> numbers(std::size_t n, float low = -1.0f, float high = 1.0f) {
    std::vector<float> out(n);
    for (float& x : out) x = number(low, high);
    return out;
  }

 private:
  std::mt19937 engine_;
};

/// Bytes that end right before a page that nobody may touch, so that reading past the end is a
/// crash in every build. Aligned as the number of bytes makes it.
class GuardedBytes {
 public:
  explicit GuardedBytes(const std::vector<std::byte>& bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t used = (bytes.size() + page - 1) / page * page;
    size_ = used + page;
    mapping_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(mapping_, MAP_FAILED);
    std::byte* end = static_cast<std::byte*>(mapping_) + used;
    EXPECT_EQ(mprotect(end, page, PROT_NONE), 0);
    data_ = end - bytes.size();
    std::copy(bytes.begin(), bytes.end(), data_);
  }
  ~GuardedBytes() { munmap(mapping_, size_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  const std::byte* data() const { return data_; }

 private:
  void* mapping_ = nullptr;
  std::size_t size_ = 0;
  std::byte* data_ = nullptr;
};

/// Floats on a 64-byte boundary.
class AlignedFloats {
 public:
  explicit AlignedFloats(std::size_t n) : storage_(n + 16, -77.0f) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    data_ = storage_.data() + ((64 - address % 64) % 64) / sizeof(float);
  }
  float* data() { return data_; }

 private:
  std::vector<float> storage_;
  float* data_;
};

inline std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

/// The same bits, so also the same NaN and the same zero.
inline bool same_bits(const float* a, const float* b, std::size_t n) {
  return n == 0 || std::memcmp(a, b, n * sizeof(float)) == 0;
}
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && same_bits(a.data(), b.data(), a.size());
}

/// |value - exact| in units of the last place of a float32 of the size of `exact`.
inline double ulps(float value, double exact) {
  const auto nearest = static_cast<float>(exact);
  if (value == nearest || (std::isnan(value) && std::isnan(nearest))) return 0.0;
  if (!std::isfinite(value) || !std::isfinite(nearest)) return INFINITY;
  const double spacing =
      std::max(std::ldexp(1.0, std::ilogb(exact == 0.0 ? 1e-45 : exact) - 23), 0x1p-149);
  return std::fabs(static_cast<double>(value) - exact) / spacing;
}

}  // namespace sluice::kernels::test
