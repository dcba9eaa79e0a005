// Kernels run on threads with small stacks.
#include <atomic>

#include "base/thread_pool.h"
#include "kernels/matmul.h"
#include "kernels/ops.h"
#include "kernels/support.h"

namespace sluice::kernels::test {
namespace {

/// Every kernel that keeps a block of numbers on its stack, at sizes that fill it.
void run_all(WeightFormat format) {
  constexpr std::size_t kColumns = 2080;  // several blocks and a rest
  constexpr std::size_t kRows = 21;
  std::vector<std::byte> data(kRows * kColumns * 4, std::byte{0x3C});
  const Rows w{format, data.data(), data.data(), kRows, kColumns};
  const std::vector<float> x(kRows * kColumns, 0.5f);
  std::vector<float> y(kRows * kColumns);
  AlignedFloats prepared(prepared_floats(kColumns, 6));
  prepare(format, x.data(), kColumns, kColumns, 6, prepared.data());
  matmul(w, prepared.data(), 6, y.data(), kRows);
  matmul(w, prepared.data(), 1, y.data(), kRows);
  decode_row(w, 3, y.data());
  if (format != WeightFormat::mxfp4) add_transposed(w, x.data(), y.data());
  const float* sources[9] = {};
  for (const float*& source : sources) source = x.data();
  attention_residual(sources, x.data(), kColumns, 1e-5f, y.data());
  std::vector<float> logits(2048, 0.5f);
  std::vector<std::int32_t> ids(16);
  route(Router{2048, 16, 1024, 512}, logits.data(), x.data(), ids.data(), y.data());
  std::vector<float> state(128 * 128);
  kda_step(state.data(), x.data(), x.data(), x.data(), x.data(), 0.5f, 128, y.data(),
           y.data() + 128);
  latent_attention_heads(x.data(), 9, x.data(), 70, 576, 512, 0.1f, y.data(), y.data() + 9 * 70);
  short_convolution(state.data(), x.data(), 1000, 4, x.data(), y.data());
}

TEST(Stack, KernelsFitIntoTheStackOfAThread) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    ThreadPool pool(2);
    std::atomic<int> inside{0};
    pool.run(2, [&](std::size_t, int) {
      // Both threads must be here, so that the one that the pool started is.
      inside.fetch_add(1);
      while (inside.load() < 2) std::this_thread::yield();
      for (const WeightFormat format :
           {WeightFormat::f32, WeightFormat::f16, WeightFormat::bf16, WeightFormat::mxfp4}) {
        run_all(format);
      }
    });
  }
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace
}  // namespace sluice::kernels::test
