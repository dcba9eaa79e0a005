// GGUF's block formats: decoded as their definition says, and multiplied with the same bits however
// the work is cut.
#include <fstream>

#include "kernels/matmul.h"
#include "kernels/multiply.h"
#include "kernels/scalar.h"
#include "kernels/support.h"

namespace sluice::kernels::test {
namespace {

struct Kind {
  WeightFormat format;
  const char* name;
};
constexpr Kind kKinds[] = {
    {WeightFormat::q4_0, "q4_0"},          {WeightFormat::q4_1, "q4_1"},
    {WeightFormat::q5_0, "q5_0"},          {WeightFormat::q5_1, "q5_1"},
    {WeightFormat::q8_0, "q8_0"},          {WeightFormat::iq4_nl, "iq4_nl"},
    {WeightFormat::q2_k, "q2_k"},          {WeightFormat::q3_k, "q3_k"},
    {WeightFormat::q4_k, "q4_k"},          {WeightFormat::q5_k, "q5_k"},
    {WeightFormat::q6_k, "q6_k"},          {WeightFormat::iq4_xs, "iq4_xs"},
    {WeightFormat::mxfp4_blocks, "mxfp4"},
};

/// Blocks of a type, and what the independent decoder makes of them.
struct GoldenBlocks {
  static constexpr std::size_t kBlocks = 6;

  explicit GoldenBlocks(const Kind& kind) : block(block_of(kind.format)) {
    std::ifstream in(std::string(SLUICE_SOURCE_DIR "/tests/golden/quants/") + kind.name + ".bin",
                     std::ios::binary);
    data.resize(kBlocks * block.bytes);
    values.resize(kBlocks * block.columns);
    in.read(reinterpret_cast<char*>(data.data()), static_cast<std::streamsize>(data.size()));
    in.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(float)));
    EXPECT_TRUE(in) << kind.name;
  }

  WeightBlock block;
  std::vector<std::byte> data;
  std::vector<float> values;
};

/// Random blocks of ordinary size: the goldens' blocks, shuffled codes and all.
std::vector<std::byte> random_rows(const Kind& kind, std::size_t rows, std::size_t columns,
                                   std::uint32_t seed) {
  const GoldenBlocks golden(kind);
  Random random(seed);
  std::vector<std::byte> data;
  for (std::size_t i = 0; i < rows * columns / golden.block.columns; ++i) {
    // Block 0 has a tiny scale, the last of MXFP4 a huge one.
    const std::size_t from = (1 + random.below(4)) * golden.block.bytes;
    data.insert(data.end(), golden.data.begin() + static_cast<std::ptrdiff_t>(from),
                golden.data.begin() + static_cast<std::ptrdiff_t>(from + golden.block.bytes));
  }
  return data;
}

class Blocks : public KernelTest {};

TEST_P(Blocks, DecodeAsTheIndependentDecoderDoes) {
  for (const Kind& kind : kKinds) {
    const GoldenBlocks golden(kind);
    const std::size_t columns = golden.values.size();
    const Rows row{kind.format, golden.data.data(), nullptr, 1, columns};
    std::vector<float> decoded(columns);
    decode_row(row, 0, decoded.data());
    for (std::size_t c = 0; c < columns; ++c) {
      EXPECT_EQ(decoded[c], golden.values[c]) << kind.name << " column " << c;
    }
  }
}

TEST_P(Blocks, ProductsWithOneAreTheDecodedWeights) {
  for (const Kind& kind : kKinds) {
    const GoldenBlocks golden(kind);
    const std::size_t columns = golden.block.columns;
    const Rows rows{kind.format, golden.data.data(), nullptr, GoldenBlocks::kBlocks, columns};
    for (std::size_t c = 0; c < columns; ++c) {
      std::vector<float> x(columns, 0.0f);
      x[c] = 1.0f;
      const std::vector<float> y = multiply(rows, x, 1);
      for (std::size_t r = 0; r < GoldenBlocks::kBlocks; ++r) {
        EXPECT_EQ(y[r], golden.values[r * columns + c]) << kind.name << " row " << r;
      }
    }
  }
}

TEST_P(Blocks, MatmulIsWithinRoundingOfFloat64AndItsScalarTwin) {
  for (const Kind& kind : kKinds) {
    const std::size_t columns = 3 * 256;
    const std::vector<std::byte> data = random_rows(kind, 7, columns, 1);
    const Rows w{kind.format, data.data(), nullptr, 7, columns};
    const std::vector<float> x = Random(2).numbers(3 * columns);
    const std::vector<float> y = multiply(w, x, 3);
    AlignedFloats prepared(prepared_floats(columns, 3));
    scalar::prepare(kind.format, x.data(), columns, columns, 3, prepared.data());
    std::vector<float> twin(y.size());
    scalar::matmul(w, prepared.data(), 3, twin.data(), w.rows);
    std::vector<float> row(columns);
    for (std::size_t r = 0; r < w.rows; ++r) {
      scalar::decode_row(w, r, row.data());
      for (std::size_t t = 0; t < 3; ++t) {
        double exact = 0.0;
        double magnitude = 0.0;
        for (std::size_t c = 0; c < columns; ++c) {
          const double product = static_cast<double>(row[c]) * x[t * columns + c];
          exact += product;
          magnitude += std::fabs(product);
        }
        EXPECT_NEAR(y[t * w.rows + r], exact, 1e-6 * magnitude) << kind.name;
        EXPECT_NEAR(twin[t * w.rows + r], exact, 1e-5 * magnitude) << kind.name;
      }
    }
  }
}

TEST_P(Blocks, BitsDoNotDependOnPositionsNorOnRows) {
  for (const Kind& kind : kKinds) {
    const std::size_t columns = 2 * 256;
    const std::vector<std::byte> data = random_rows(kind, 9, columns, 3);
    const Rows w{kind.format, data.data(), nullptr, 9, columns};
    constexpr std::size_t kMost = 21;
    const std::vector<float> x = Random(4).numbers(kMost * columns);
    std::vector<float> one_by_one;
    for (std::size_t t = 0; t < kMost; ++t) {
      const auto from = x.begin() + static_cast<std::ptrdiff_t>(t * columns);
      const auto y = multiply(w, {from, from + static_cast<std::ptrdiff_t>(columns)}, 1);
      one_by_one.insert(one_by_one.end(), y.begin(), y.end());
    }
    for (const std::size_t positions : {2u, 4u, 7u, 8u, 9u, 16u, 21u}) {
      const std::vector<float> y = multiply(w, x, positions);
      EXPECT_TRUE(same_bits(y.data(), one_by_one.data(), y.size()))
          << kind.name << " positions " << positions;
    }
    AlignedFloats prepared(prepared_floats(columns, 1));
    prepare(kind.format, x.data(), columns, columns, 1, prepared.data());
    for (std::size_t split = 0; split <= w.rows; ++split) {
      Rows upper = w;
      Rows lower = w;
      upper.rows = split;
      lower.rows = w.rows - split;
      lower.data += split * bytes_per_row(kind.format, columns);
      std::vector<float> y(w.rows, -1.0f);
      matmul(upper, prepared.data(), 1, y.data(), w.rows);
      matmul(lower, prepared.data(), 1, y.data() + split, w.rows);
      EXPECT_TRUE(same_bits(y.data(), one_by_one.data(), w.rows)) << kind.name;
    }
  }
}

TEST_P(Blocks, NothingIsReadPastTheEndAndAlignmentDoesNotMatter) {
  for (const Kind& kind : kKinds) {
    const std::size_t columns = 256;
    const std::vector<std::byte> data = random_rows(kind, 5, columns, 5);
    const Rows w{kind.format, data.data(), nullptr, 5, columns};
    for (const std::size_t positions : {1u, 9u}) {
      const std::vector<float> x = Random(6).numbers(positions * columns);
      const std::vector<float> expected = multiply(w, x, positions);
      const GuardedBytes guarded(data);
      Rows at_the_end = w;
      at_the_end.data = guarded.data();
      EXPECT_TRUE(same_bits(multiply(at_the_end, x, positions), expected)) << kind.name;
      std::vector<std::byte> moved(3, std::byte{0xEE});
      moved.insert(moved.end(), data.begin(), data.end());
      Rows odd = w;
      odd.data = moved.data() + 3;
      EXPECT_TRUE(same_bits(multiply(odd, x, positions), expected)) << kind.name;
    }
  }
}

SLUICE_ON_ALL_TARGETS(Blocks);

}  // namespace
}  // namespace sluice::kernels::test
