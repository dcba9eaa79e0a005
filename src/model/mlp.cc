#include "model/mlp.h"

namespace sluice::model {

MlpNames mlp_names(const std::string& prefix) {
  return {prefix + "gate_proj.weight", prefix + "up_proj.weight", prefix + "down_proj.weight"};
}

MlpWeights find_mlp(BlueprintBuilder& builder, const MlpNames& names, std::size_t width,
                    std::size_t hidden) {
  MlpWeights w;
  // In the order in which run_mlp() uses them.
  w.gate = builder.projection(names.gate, width, hidden);
  w.up = builder.projection(names.up, width, hidden);
  w.down = builder.projection(names.down, hidden, width);
  return w;
}

MlpScratch lay_out_mlp(Arena& arena, std::size_t width, std::size_t positions) {
  MlpScratch s{};
  s.gate = arena.take(positions * width);
  s.up = arena.take(positions * width);
  s.prepared = arena.take(kernels::prepared_floats(width, positions));
  return s;
}

Status run_mlp(const MlpWeights& weights, const kernels::Glu& glu, Executor& executor,
               const MlpScratch& scratch, Input& x, float* y) {
  const std::size_t width = weights.gate.rows;
  SLUICE_TRY(executor.multiply(weights.gate, x, scratch.gate));
  SLUICE_TRY(executor.multiply(weights.up, x, scratch.up));
  executor.parallel_ranges(x.positions() * width, 4096, [&](std::size_t first, std::size_t count) {
    kernels::glu(glu, scratch.gate + first, scratch.up + first, count, scratch.gate + first);
  });
  Input inner(scratch.gate, width, x.positions(), scratch.prepared);
  return executor.multiply(weights.down, inner, y);
}

}  // namespace sluice::model
