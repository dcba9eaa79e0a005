// Stored weights become float32 exactly: every code of every format.
#include <limits>

#include "kernels/matmul.h"
#include "kernels/scalar.h"
#include "kernels/support.h"

namespace sluice::kernels::test {
namespace {

/// The value of an E2M1 code from its definition: sign, two exponent bits with bias 1, one mantissa
/// bit.
double e2m1(unsigned code) {
  const unsigned exponent = code >> 1 & 3u;
  const double mantissa = code & 1u;
  const double magnitude =
      exponent == 0 ? mantissa / 2 : std::ldexp(1.0 + mantissa / 2, static_cast<int>(exponent) - 1);
  return (code & 8u) != 0 ? -magnitude : magnitude;
}

/// A row with each scale byte (but 255, an error) over 32 columns that hold each code at an even
/// and at an odd column.
struct Table {
  Table() {
    for (unsigned scale = 0; scale < 255; ++scale) {
      scales.push_back(static_cast<std::byte>(scale));
      for (unsigned code = 0; code < 16; ++code) {
        codes.push_back(static_cast<std::byte>(code | (15 - code) << 4));
      }
    }
  }

  static unsigned code_at(std::size_t column) {
    const auto even = static_cast<unsigned>(column % 32 / 2);
    return column % 2 == 0 ? even : 15 - even;
  }
  static float value_at(std::size_t column) {
    return static_cast<float>(
        std::ldexp(e2m1(code_at(column)), static_cast<int>(column / 32) - 127));
  }

  Rows one_row() const { return {WeightFormat::mxfp4, codes.data(), scales.data(), 1, 255 * 32}; }

  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
};

class Decode : public KernelTest {};

TEST_P(Decode, Mxfp4Has16CodesTimes255Scales) {
  const Table table;
  std::vector<float> row(255 * 32);
  decode_row(table.one_row(), 0, row.data());
  std::vector<float> twin(row.size());
  scalar::decode_row(table.one_row(), 0, twin.data());
  for (std::size_t c = 0; c < row.size(); ++c) {
    EXPECT_EQ(bits_of(row[c]), bits_of(Table::value_at(c))) << "column " << c;
    EXPECT_EQ(bits_of(twin[c]), bits_of(Table::value_at(c))) << "column " << c;
  }
}

TEST_P(Decode, Mxfp4ProductsAreExactForAllCodesAndScales) {
  const Table table;
  AlignedFloats prepared(prepared_floats(32, 1));
  for (std::size_t column = 0; column < 255 * 32; ++column) {
    const std::size_t group = column / 32;
    std::vector<float> x(32, 0.0f);
    x[column % 32] = 1.0f;
    prepare(WeightFormat::mxfp4, x.data(), 32, 32, 1, prepared.data());
    const Rows row{WeightFormat::mxfp4, table.codes.data() + 16 * group,
                   table.scales.data() + group, 1, 32};
    float y = NAN;
    matmul(row, prepared.data(), 1, &y, 1);
    EXPECT_EQ(y, Table::value_at(column))
        << "scale byte " << group << " code " << Table::code_at(column);
  }
}

TEST_P(Decode, Bf16IsTheUpperHalfOfFloat32) {
  std::vector<std::uint16_t> numbers(65536);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::uint16_t>(i);
  const Rows row{WeightFormat::bf16, reinterpret_cast<const std::byte*>(numbers.data()), nullptr, 1,
                 numbers.size()};
  std::vector<float> out(numbers.size());
  decode_row(row, 0, out.data());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(i) << 16;
    // What a processor passes through a register of floats may come out as a quiet NaN.
    const bool same = bits_of(out[i]) == bits || (std::isnan(out[i]) && (bits << 1) > 0xFF000000u);
    EXPECT_TRUE(same) << i << ": " << bits_of(out[i]);
  }
}

TEST_P(Decode, F16IsExactForAllNumbers) {
  std::vector<std::uint16_t> numbers(65536);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::uint16_t>(i);
  const Rows row{WeightFormat::f16, reinterpret_cast<const std::byte*>(numbers.data()), nullptr, 1,
                 numbers.size()};
  std::vector<float> out(numbers.size());
  decode_row(row, 0, out.data());
  std::vector<float> twin(numbers.size());
  scalar::decode_row(row, 0, twin.data());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto exponent = static_cast<int>(i >> 10 & 31u);
    const auto mantissa = static_cast<double>(i & 1023u);
    double exact = exponent == 0    ? std::ldexp(mantissa, -24)
                   : exponent == 31 ? (mantissa == 0 ? INFINITY : NAN)
                                    : std::ldexp(1024 + mantissa, exponent - 25);
    if (i >= 32768) exact = -exact;
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(out[i]) && std::isnan(twin[i])) << i;
    } else {
      EXPECT_EQ(bits_of(out[i]), bits_of(static_cast<float>(exact))) << i;
      EXPECT_EQ(bits_of(twin[i]), bits_of(static_cast<float>(exact))) << i;
    }
  }
}

TEST_P(Decode, AnyRowOfAnyWidthAtAnyAlignment) {
  Random random(1);
  for (const std::size_t columns : {1u, 5u, 24u, 40u, 96u, 131u}) {
    for (const WeightFormat format : {WeightFormat::f32, WeightFormat::f16, WeightFormat::bf16}) {
      const std::size_t size = 3 * bytes_per_row(format, columns);
      std::vector<std::byte> bytes(size + 1);
      for (std::byte& b : bytes) b = static_cast<std::byte>(random.below(64));
      const Rows rows{format, bytes.data() + 1, nullptr, 3, columns};
      for (std::size_t r = 0; r < 3; ++r) {
        std::vector<float> out(columns + 1, -3.0f);
        std::vector<float> twin(columns + 1, -3.0f);
        decode_row(rows, r, out.data());
        scalar::decode_row(rows, r, twin.data());
        EXPECT_TRUE(same_bits(out, twin));
      }
    }
  }
}

SLUICE_ON_ALL_TARGETS(Decode);

TEST(FindBadScale, NamesTheFirst255) {
  std::vector<std::byte> scales(300, std::byte{254});
  EXPECT_EQ(find_bad_scale(scales.data(), scales.size()), 300u);
  EXPECT_EQ(find_bad_scale(nullptr, 0), 0u);
  for (std::size_t at = 0; at < scales.size(); ++at) {
    scales[at] = std::byte{255};
    EXPECT_EQ(find_bad_scale(scales.data(), scales.size()), at);
    EXPECT_EQ(find_bad_scale(scales.data(), at), at);
    if (at > 0) {
      EXPECT_EQ(find_bad_scale(scales.data() + 1, scales.size() - 1), at - 1);
    }
    scales[at] = std::byte{0};
  }
}

}  // namespace
}  // namespace sluice::kernels::test
