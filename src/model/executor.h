// Matrices times activations over all threads, the matrix coming from wherever it is.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "base/cancellation.h"
#include "base/function_ref.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "base/trace.h"
#include "kernels/matmul.h"
#include "model/blueprint.h"
#include "model/low_rank.h"
#include "model/vectors.h"
#include "weights/expert_banks.h"
#include "weights/trunk_stream.h"

namespace sluice::model {

/// Activations that several matrices multiply: [positions, columns], prepared for the kernels once
/// per weight format, in `room` (kernels::prepared_floats() floats, 64-byte aligned).
class Input {
 public:
  Input(const float* x, std::size_t columns, std::size_t positions, float* room)
      : x_(x), columns_(columns), positions_(positions), room_(room) {}

  const float* values() const { return x_; }
  std::size_t positions() const { return positions_; }
  std::size_t columns() const { return columns_; }
  const float* prepared_for(kernels::WeightFormat format);

 private:
  const float* x_;
  std::size_t columns_;
  std::size_t positions_;
  float* room_;
  std::optional<kernels::WeightFormat> format_;
};

/// Runs the arithmetic of a pass. One pass at a time.
class Executor {
 public:
  /// `trace` may be null.
  Executor(ThreadPool& threads, weights::TrunkStream& trunk, weights::ExpertBanks& experts,
           const VectorTable& vectors, Trace* trace)
      : threads_(threads), trunk_(trunk), experts_(experts), vectors_(vectors), trace_(trace) {}

  /// What is computed from now on belongs to this layer.
  void enter_layer(std::size_t layer) { layer_ = layer; }
  /// Until the end of the scope the trace has a span of the layer. The texts must live as long.
  TraceSpan span(std::string_view kind, std::string_view name) {
    return {trace_, kind, name, layer_};
  }
  bool is_traced() const { return trace_ != nullptr; }

  /// The pass under way may be asked to stop.
  void watch(const Cancellation* cancellation) { cancellation_ = cancellation; }
  /// The adapters of the pass under way, and room for what they compute; both outlive the pass.
  void adapt(std::span<const AdaptedRows> rows, const LowRankRoom& room) {
    adapted_ = rows;
    low_rank_ = room;
  }
  /// ErrorKind::interrupted once the pass is asked to stop.
  Status check_cancelled() const;

  /// y[t * rows + r] = W x: the next matrix of the schedule, tile by tile as it arrives; and what
  /// adapters add to it. ErrorKind::number with the tensor's name if that is not finite: an
  /// activation or a choice further on may swallow what is infinite.
  Status multiply(const Matrix& matrix, Input& x, float* y);

  /// y = W x for a matrix that comes later in the pass, if all of it is in memory already and y is
  /// finite.
  bool multiply_early(const Matrix& matrix, Input& x, float* y);

  /// Hands the tiles of the next matrix of the schedule to `visit` as they arrive.
  Status for_each_tile(const Matrix& matrix, FunctionRef<void(const weights::Tile& tile)> visit);

  /// The error where what `of` ("tensor") the matrix makes of its input is not finite.
  Status bad_product(const Matrix& matrix, std::string_view of) const;

  /// A tile of a matrix as the kernels want it.
  kernels::Rows rows_of(const Matrix& matrix, const weights::Tile& tile) const;

  /// Calls work(item, worker) for all items on all threads.
  void parallel(std::size_t items, FunctionRef<void(std::size_t item, int worker)> work) {
    threads_.run(items, work);
  }
  /// Calls work(first, count) on pieces of [0, n), each at least `grain` long, on all threads.
  void parallel_ranges(std::size_t n, std::size_t grain,
                       FunctionRef<void(std::size_t first, std::size_t count)> work);

  int threads() const { return threads_.threads(); }
  weights::ExpertBanks& experts() { return experts_; }
  /// ExpertBanks::next(), with the wait in the trace.
  Result<weights::ReadyExpert> next_expert();

 private:
  Result<std::span<const weights::Tile>> take(const Matrix& matrix);
  /// False where a result is not finite.
  bool multiply_tiles(const Matrix& matrix, std::span<const weights::Tile> tiles,
                      const float* prepared, std::size_t positions, float* y);
  void add_adapters(const Matrix& matrix, Input& x, float* y);

  ThreadPool& threads_;
  weights::TrunkStream& trunk_;
  weights::ExpertBanks& experts_;
  const VectorTable& vectors_;
  Trace* const trace_;
  std::size_t layer_ = Trace::kNoLayer;
  const Cancellation* cancellation_ = nullptr;
  std::span<const AdaptedRows> adapted_;
  LowRankRoom low_rank_;
};

/// Rows of a matrix that make a good piece of work for one thread.
std::size_t rows_per_item(kernels::WeightFormat format, std::size_t columns);

}  // namespace sluice::model
