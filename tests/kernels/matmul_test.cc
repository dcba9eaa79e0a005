// Weight rows times activations: right, and the same bits however the work is cut.
#include "kernels/matmul.h"

#include <algorithm>

#include "kernels/multiply.h"
#include "kernels/scalar.h"
#include "kernels/support.h"

namespace sluice::kernels::test {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::f32, WeightFormat::f16, WeightFormat::bf16,
                                     WeightFormat::mxfp4};

/// A matrix of random weights of ordinary size.
struct Matrix {
  Matrix(WeightFormat kind, std::size_t height, std::size_t width, std::uint32_t seed)
      : format(kind), rows(height), columns(width), data(rows * bytes_per_row(kind, width)) {
    Random random(seed);
    if (format == WeightFormat::mxfp4) {
      for (std::byte& b : data) b = static_cast<std::byte>(random.below(256));
      scales.resize(rows * columns / 32);
      for (std::byte& b : scales) b = static_cast<std::byte>(118 + random.below(14));
      return;
    }
    const std::size_t size = bytes_per_row(format, 1);
    for (std::size_t i = 0; i < rows * columns; ++i) {
      std::uint32_t bits = bits_of(random.number(-1.0f, 1.0f));
      if (format == WeightFormat::bf16) bits >>= 16;
      if (format == WeightFormat::f16) bits = 0x3000u + bits % 0xC00u + (bits >> 31 << 15);
      std::memcpy(data.data() + i * size, &bits, size);
    }
  }

  Rows view() const { return {format, data.data(), scales.data(), rows, columns}; }

  WeightFormat format;
  std::size_t rows;
  std::size_t columns;
  std::vector<std::byte> data;
  std::vector<std::byte> scales;
};

/// Columns that fill no vector, one step, several, with every kind of remainder.
std::vector<std::size_t> widths(WeightFormat format) {
  if (format == WeightFormat::mxfp4) return {32, 64, 96, 128, 160, 256, 352, 1056};
  return {1, 2, 7, 24, 31, 32, 40, 56, 96, 160, 257, 352, 1000};
}

class Matmul : public KernelTest {};

TEST_P(Matmul, IsWithinRoundingOfFloat64) {
  for (const WeightFormat format : kFormats) {
    for (const std::size_t columns : widths(format)) {
      const Matrix w(format, 19, columns, 1);
      const std::vector<float> x = Random(2).numbers(3 * columns);
      const std::vector<float> y = multiply(w.view(), x, 3);
      std::vector<float> row(columns);
      for (std::size_t r = 0; r < w.rows; ++r) {
        scalar::decode_row(w.view(), r, row.data());
        for (std::size_t t = 0; t < 3; ++t) {
          double exact = 0.0;
          double magnitude = 0.0;
          for (std::size_t c = 0; c < columns; ++c) {
            const double product = static_cast<double>(row[c]) * x[t * columns + c];
            exact += product;
            magnitude += std::fabs(product);
          }
          EXPECT_NEAR(y[t * w.rows + r], exact, 5e-7 * magnitude)
              << "format " << static_cast<int>(format) << " columns " << columns << " row " << r;
        }
      }
    }
  }
}

TEST_P(Matmul, AgreesWithItsScalarTwin) {
  for (const WeightFormat format : kFormats) {
    for (const std::size_t columns : widths(format)) {
      const Matrix w(format, 9, columns, 3);
      const std::vector<float> x = Random(4).numbers(2 * columns);
      const std::vector<float> y = multiply(w.view(), x, 2);
      AlignedFloats prepared(prepared_floats(columns, 2));
      scalar::prepare(format, x.data(), columns, columns, 2, prepared.data());
      std::vector<float> twin(y.size());
      scalar::matmul(w.view(), prepared.data(), 2, twin.data(), w.rows);
      const float tolerance = 2e-6f * static_cast<float>(columns);
      for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], twin[i], tolerance);
    }
  }
}

TEST_P(Matmul, BitsDoNotDependOnTheNumberOfPositions) {
  for (const WeightFormat format : kFormats) {
    for (const std::size_t columns : widths(format)) {
      const Matrix w(format, 21, columns, 5);
      constexpr std::size_t kMost = 67;
      const std::vector<float> x = Random(6).numbers(kMost * columns);
      std::vector<float> one_by_one;
      for (std::size_t t = 0; t < kMost; ++t) {
        const auto from = x.begin() + static_cast<std::ptrdiff_t>(t * columns);
        const std::vector<float> y =
            multiply(w.view(), {from, from + static_cast<std::ptrdiff_t>(columns)}, 1);
        one_by_one.insert(one_by_one.end(), y.begin(), y.end());
      }
      for (const std::size_t positions : {2u, 3u, 4u, 5u, 8u, 31u, 32u, 33u, 67u}) {
        const std::vector<float> y = multiply(w.view(), x, positions);
        EXPECT_TRUE(same_bits(y.data(), one_by_one.data(), y.size()))
            << "format " << static_cast<int>(format) << " columns " << columns << " positions "
            << positions;
      }
    }
  }
}

TEST_P(Matmul, BitsDoNotDependOnWhereRowsAreSplit) {
  for (const WeightFormat format : kFormats) {
    const std::size_t columns = format == WeightFormat::mxfp4 ? 224 : 201;
    const Matrix w(format, 37, columns, 7);
    for (const std::size_t positions : {1u, 2u, 5u}) {
      const std::vector<float> x = Random(8).numbers(positions * columns);
      const std::vector<float> whole = multiply(w.view(), x, positions);
      AlignedFloats prepared(prepared_floats(columns, positions));
      prepare(format, x.data(), columns, columns, positions, prepared.data());
      for (std::size_t split = 0; split <= w.rows; ++split) {
        std::vector<float> y(whole.size(), -1.0f);
        Rows upper = w.view();
        Rows lower = w.view();
        upper.rows = split;
        lower.rows = w.rows - split;
        lower.data += split * bytes_per_row(format, columns);
        if (format == WeightFormat::mxfp4) lower.scales += split * columns / 32;
        matmul(upper, prepared.data(), positions, y.data(), w.rows);
        matmul(lower, prepared.data(), positions, y.data() + split, w.rows);
        EXPECT_TRUE(same_bits(y, whole)) << "split at row " << split;
      }
    }
  }
}

TEST_P(Matmul, BitsDoNotDependOnAlignmentAndNothingIsReadPastTheEnd) {
  for (const WeightFormat format : kFormats) {
    for (const std::size_t columns : widths(format)) {
      const Matrix w(format, 11, columns, 9);
      for (const std::size_t positions : {1u, 3u}) {
        const std::vector<float> x = Random(10).numbers(positions * columns);
        const std::vector<float> expected = multiply(w.view(), x, positions);
        const GuardedBytes data(w.data);
        const GuardedBytes scales(w.scales);
        Rows guarded = w.view();
        guarded.data = data.data();
        guarded.scales = scales.data();
        EXPECT_TRUE(same_bits(multiply(guarded, x, positions), expected));
        for (std::size_t offset = 1; offset < 8; ++offset) {
          std::vector<std::byte> moved(offset, std::byte{0xEE});
          moved.insert(moved.end(), w.data.begin(), w.data.end());
          std::vector<std::byte> moved_scales(offset, std::byte{0xEE});
          moved_scales.insert(moved_scales.end(), w.scales.begin(), w.scales.end());
          Rows view = w.view();
          view.data = moved.data() + offset;
          view.scales = moved_scales.data() + offset;
          EXPECT_TRUE(same_bits(multiply(view, x, positions), expected)) << "offset " << offset;
        }
      }
    }
  }
}

TEST_P(Matmul, StridesAreKept) {
  for (const WeightFormat format : kFormats) {
    const Matrix w(format, 5, 64, 11);
    const std::vector<float> x = Random(12).numbers(4 * 64);
    const std::vector<float> dense = multiply(w.view(), x, 4);
    std::vector<float> wide(4 * 100, NAN);
    for (std::size_t t = 0; t < 4; ++t) std::copy_n(x.data() + 64 * t, 64, wide.data() + 100 * t);
    AlignedFloats prepared(prepared_floats(64, 4));
    prepare(format, wide.data(), 100, 64, 4, prepared.data());
    std::vector<float> y(4 * 9, -5.0f);
    matmul(w.view(), prepared.data(), 4, y.data(), 9);
    for (std::size_t t = 0; t < 4; ++t) {
      EXPECT_TRUE(same_bits(y.data() + 9 * t, dense.data() + 5 * t, 5));
      for (std::size_t gap = 5; gap < 9; ++gap) EXPECT_EQ(y[9 * t + gap], -5.0f);
    }
  }
}

TEST_P(Matmul, PrepareWritesOnlyItsRoom) {
  for (const WeightFormat format : kFormats) {
    for (const std::size_t columns : widths(format)) {
      const std::size_t room = prepared_floats(columns, 3);
      AlignedFloats prepared(room + 8);
      const std::vector<float> x = Random(13).numbers(3 * columns);
      prepare(format, x.data(), columns, columns, 3, prepared.data());
      for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(prepared.data()[room + i], -77.0f);
    }
  }
}

TEST_P(Matmul, NanReachesExactlyItsPosition) {
  for (const WeightFormat format : kFormats) {
    const Matrix w(format, 20, 96, 14);
    std::vector<float> x = Random(15).numbers(6 * 96, 0.5f, 1.0f);
    x[2 * 96 + 17] = NAN;
    const std::vector<float> y = multiply(w.view(), x, 6);
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 20 == 2);
  }
}

TEST_P(Matmul, NoRowsAndNoPositionsAreFine) {
  const Matrix w(WeightFormat::bf16, 3, 32, 16);
  Rows none = w.view();
  none.rows = 0;
  AlignedFloats prepared(prepared_floats(32, 2));
  const std::vector<float> x(64, 1.0f);
  prepare(WeightFormat::bf16, x.data(), 32, 32, 2, prepared.data());
  float y = 5.0f;
  matmul(none, prepared.data(), 2, &y, 1);
  matmul(w.view(), prepared.data(), 0, &y, 1);
  EXPECT_EQ(y, 5.0f);
}

SLUICE_ON_ALL_TARGETS(Matmul);

class Transposed : public KernelTest {};

TEST_P(Transposed, AddsRowAfterRow) {
  for (const WeightFormat format : {WeightFormat::f32, WeightFormat::f16, WeightFormat::bf16}) {
    for (const std::size_t columns : {1u, 24u, 32u, 40u, 129u, 512u, 2100u}) {
      const Matrix w(format, 23, columns, 17);
      const std::vector<float> a = Random(18).numbers(23);
      const std::vector<float> start = Random(19).numbers(columns);
      std::vector<float> y = start;
      add_transposed(w.view(), a.data(), y.data());
      std::vector<float> row(columns);
      std::vector<double> exact(start.begin(), start.end());
      for (std::size_t r = 0; r < w.rows; ++r) {
        scalar::decode_row(w.view(), r, row.data());
        for (std::size_t c = 0; c < columns; ++c) exact[c] += static_cast<double>(a[r]) * row[c];
      }
      for (std::size_t c = 0; c < columns; ++c) EXPECT_NEAR(y[c], exact[c], 3e-6);
      std::vector<float> twin = start;
      scalar::add_transposed(w.view(), a.data(), twin.data());
      for (std::size_t c = 0; c < columns; ++c) EXPECT_NEAR(y[c], twin[c], 6e-6);
    }
  }
}

TEST_P(Transposed, BitsDoNotDependOnWhereRowsAreSplit) {
  for (const WeightFormat format : {WeightFormat::f32, WeightFormat::f16, WeightFormat::bf16}) {
    const std::size_t columns = 77;
    const Matrix w(format, 14, columns, 20);
    const GuardedBytes guarded(w.data);
    const std::vector<float> a = Random(21).numbers(14);
    std::vector<float> whole(columns, 0.25f);
    add_transposed(w.view(), a.data(), whole.data());
    for (std::size_t split = 0; split <= 14; ++split) {
      Rows upper = w.view();
      Rows lower = w.view();
      upper.rows = split;
      lower.rows = 14 - split;
      lower.data = guarded.data() + split * bytes_per_row(format, columns);
      std::vector<float> y(columns, 0.25f);
      add_transposed(upper, a.data(), y.data());
      add_transposed(lower, a.data() + split, y.data());
      EXPECT_TRUE(same_bits(y, whole)) << "split at row " << split;
    }
  }
}

SLUICE_ON_ALL_TARGETS(Transposed);

}  // namespace
}  // namespace sluice::kernels::test
