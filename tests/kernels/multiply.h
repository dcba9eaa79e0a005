// A whole product of weight rows and activations.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/matmul.h"
#include "kernels/support.h"

namespace sluice::kernels::test {

/// [positions, rows] of w times x [positions, columns].
inline std::vector<float> multiply(const Rows& w, const std::vector<float>& x,
                                   std::size_t positions) {
  AlignedFloats prepared(prepared_floats(w.columns, positions));
  prepare(w.format, x.data(), w.columns, w.columns, positions, prepared.data());
  std::vector<float> y(positions * w.rows);
  matmul(w, prepared.data(), positions, y.data(), w.rows);
  return y;
}

}  // namespace sluice::kernels::test
