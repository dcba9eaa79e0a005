// The formats whose scales lie apart: decoded as an independent decoder does, and multiplied with
// the same bits however the work is cut.
#include <fstream>

#include "kernels/matmul.h"
#include "kernels/multiply.h"
#include "kernels/scalar.h"
#include "kernels/support.h"

namespace sluice::kernels::test {
namespace {

/// A matrix as stored, and what the independent decoder makes of it.
struct GoldenMatrix {
  GoldenMatrix(WeightFormat format, const char* name, std::size_t count, std::size_t columns,
               std::size_t first, std::size_t scale_bytes)
      : codes(count * bytes_per_row(format, columns)),
        scales(scale_bytes),
        values(count * columns),
        rows{format, codes.data(), scales.data(), count, columns, first} {
    std::ifstream in(std::string(SLUICE_SOURCE_DIR "/tests/golden/quants/") + name + ".bin",
                     std::ios::binary);
    read(in, codes.data(), codes.size());
    read(in, scales.data(), scales.size());
    read(in, values.data(), values.size() * sizeof(float));
    EXPECT_TRUE(in) << name;
  }
  GoldenMatrix(const GoldenMatrix&) = delete;
  GoldenMatrix& operator=(const GoldenMatrix&) = delete;

  static void read(std::ifstream& in, void* to, std::size_t bytes) {
    in.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes));
  }

  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
  std::vector<float> values;
  Rows rows;
};

// In both rows and columns of its blocks the matrix of FP8 crosses a border.
struct Fp8 : GoldenMatrix {
  Fp8() : GoldenMatrix(WeightFormat::f8_e4m3, "f8_e4m3", 4, 160, 126, 16) {}
};
struct Int4 : GoldenMatrix {
  Int4() : GoldenMatrix(WeightFormat::int4, "int4", 5, 96, 0, 30) {}
};

/// The same number, or both none.
void expect_same(float found, float expected, std::size_t at) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(found)) << at;
  } else {
    EXPECT_EQ(bits_of(found), bits_of(expected)) << at;
  }
}

class Scaled : public KernelTest {
 protected:
  const Fp8 fp8_;
  const Int4 int4_;
  const GoldenMatrix* const goldens_[2] = {&fp8_, &int4_};
};

TEST_P(Scaled, DecodeAsTheIndependentDecoderDoes) {
  for (const GoldenMatrix* golden : goldens_) {
    const Rows& w = golden->rows;
    std::vector<float> decoded(w.columns);
    std::vector<float> twin(w.columns);
    for (std::size_t r = 0; r < w.rows; ++r) {
      decode_row(w, r, decoded.data());
      scalar::decode_row(w, r, twin.data());
      for (std::size_t c = 0; c < w.columns; ++c) {
        expect_same(decoded[c], golden->values[r * w.columns + c], c);
        expect_same(twin[c], golden->values[r * w.columns + c], c);
      }
    }
  }
}

TEST_P(Scaled, ProductsWithOneAreTheDecodedWeights) {
  for (const GoldenMatrix* golden : goldens_) {
    for (std::size_t r = 0; r < golden->rows.rows; ++r) {
      const Rows w = slice(golden->rows, r, 1);
      const float* const expected = golden->values.data() + r * w.columns;
      const bool has_nan = std::any_of(expected, expected + w.columns,
                                       [](float value) { return std::isnan(value); });
      for (std::size_t c = 0; c < w.columns; ++c) {
        std::vector<float> x(w.columns, 0.0f);
        x[c] = 1.0f;
        const float y = multiply(w, x, 1)[0];
        // A NaN anywhere in a row is one in its sum: nothing hides it.
        EXPECT_TRUE(has_nan ? std::isnan(y) : y == expected[c]) << "row " << r << " column " << c;
      }
    }
  }
}

/// Codes without NaN, in a matrix of several blocks.
std::vector<std::byte> ordinary_codes(const Rows& like, std::size_t bytes) {
  Random random(3);
  std::vector<std::byte> codes(bytes);
  for (std::byte& code : codes) {
    const auto byte = static_cast<unsigned>(random.below(256));
    const bool nan = like.format == WeightFormat::f8_e4m3 && (byte & 0x7Fu) == 0x7Fu;
    code = static_cast<std::byte>(nan ? 0 : byte);
  }
  return codes;
}

TEST_P(Scaled, TheBitsDoNotDependOnRowsPositionsOrAlignment) {
  constexpr std::size_t kRows = 135;
  constexpr std::size_t kColumns = 288;
  for (const GoldenMatrix* golden : goldens_) {
    Rows w = golden->rows;
    w.rows = kRows;
    w.columns = kColumns;
    w.first = 0;
    const auto codes = ordinary_codes(w, kRows * bytes_per_row(w.format, kColumns) + 1);
    std::vector<std::byte> scales(kRows * (kColumns / 32) * 2);
    for (std::size_t i = 0; i < scales.size() / 2; ++i) {
      const std::uint16_t bf16 = static_cast<std::uint16_t>(0x3C00 + i % 512);
      std::memcpy(scales.data() + 2 * i, &bf16, sizeof(bf16));
    }
    w.data = codes.data() + 1;
    w.scales = scales.data();
    const std::vector<float> x = Random(4).numbers(5 * kColumns);
    const std::vector<float> all = multiply(w, x, 5);
    for (const std::size_t r : {0u, 1u, 64u, 127u, 128u, 134u}) {
      std::vector<float> row(kColumns);
      decode_row(w, r, row.data());
      for (std::size_t t = 0; t < 5; ++t) {
        const std::vector<float> one(x.begin() + static_cast<std::ptrdiff_t>(t * kColumns),
                                     x.begin() + static_cast<std::ptrdiff_t>((t + 1) * kColumns));
        const float alone = multiply(slice(w, r, 1), one, 1)[0];
        EXPECT_EQ(bits_of(alone), bits_of(all[t * kRows + r])) << "row " << r << " position " << t;
        double exact = 0;
        double size = 0;
        for (std::size_t c = 0; c < kColumns; ++c) {
          exact += static_cast<double>(row[c]) * one[c];
          size += std::abs(static_cast<double>(row[c]) * one[c]);
        }
        EXPECT_NEAR(alone, exact, 1e-6 * size);
      }
    }
  }
}

SLUICE_ON_ALL_TARGETS(Scaled);

}  // namespace
}  // namespace sluice::kernels::test
