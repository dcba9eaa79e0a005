// Functions that work on each element by itself.
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstring>

#include "kernels/ops.h"
#include "kernels/scalar.h"
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
#include "kernels/math-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

using scalar::add;
using scalar::add_scaled;
using scalar::glu;
using scalar::kda_decay;
using scalar::multiply_sigmoid;
using scalar::short_convolution;
using scalar::sigmoid;

#else

void add(const float* x, std::size_t n, float* y) {
  for_each_vector(n, [=](std::size_t i, std::size_t count) HWY_ATTR {
    store(hn::Add(load(y + i, count), load(x + i, count)), y + i, count);
  });
}

void add_scaled(float a, const float* x, std::size_t n, float* y) {
  const Floats factor = hn::Set(FloatTag(), a);
  for_each_vector(n, [=](std::size_t i, std::size_t count) HWY_ATTR {
    store(hn::MulAdd(factor, load(x + i, count), load(y + i, count)), y + i, count);
  });
}

void sigmoid(const float* x, std::size_t n, float* out) {
  for_each_vector(n, [=](std::size_t i, std::size_t count)
                         HWY_ATTR { store(sigmoid_of(load(x + i, count)), out + i, count); });
}

void multiply_sigmoid(const float* gate, std::size_t n, float* y) {
  for_each_vector(n, [=](std::size_t i, std::size_t count) HWY_ATTR {
    store(hn::Mul(load(y + i, count), sigmoid_of(load(gate + i, count))), y + i, count);
  });
}

void situ_glu(const Glu& kind, const float* gate, const float* up, std::size_t n, float* out) {
  const bool cap_up = kind.linear_beta != 0.0f;
  for_each_vector(n, [=](std::size_t i, std::size_t count) HWY_ATTR {
    const Floats g = load(gate + i, count);
    Floats u = load(up + i, count);
    if (cap_up) u = capped(u, kind.linear_beta);
    store(hn::Mul(hn::Mul(capped(g, kind.beta), sigmoid_of(g)), u), out + i, count);
  });
}

void silu_glu(const float* gate, const float* up, std::size_t n, float* out) {
  for_each_vector(n, [=](std::size_t i, std::size_t count) HWY_ATTR {
    const Floats g = load(gate + i, count);
    store(hn::Mul(hn::Mul(g, sigmoid_of(g)), load(up + i, count)), out + i, count);
  });
}

/// (1 + tanh(z)) / 2 is the sigmoid of 2 z, with z = sqrt(2 / pi) (x + 0.044715 x^3): precise for
/// small results too.
void gelu_glu(const float* gate, const float* up, std::size_t n, float* out) {
  const FloatTag floats;
  for_each_vector(n, [=](std::size_t i, std::size_t count) HWY_ATTR {
    const Floats g = load(gate + i, count);
    const Floats cube = hn::Mul(hn::Mul(g, g), g);
    const Floats argument = hn::Mul(hn::Set(floats, 1.5957691216057308f),
                                    hn::MulAdd(hn::Set(floats, 0.044715f), cube, g));
    store(hn::Mul(hn::Mul(g, sigmoid_of(argument)), load(up + i, count)), out + i, count);
  });
}

/// Compared such that a NaN stays one.
void limited_glu(const Glu& kind, const float* gate, const float* up, std::size_t n, float* out) {
  const FloatTag floats;
  const Floats most = hn::Set(floats, kind.limit);
  const Floats least = hn::Neg(most);
  for_each_vector(n, [=](std::size_t i, std::size_t count) HWY_ATTR {
    Floats g = load(gate + i, count);
    Floats u = load(up + i, count);
    g = hn::IfThenElse(hn::Gt(g, most), most, g);
    u = hn::IfThenElse(hn::Gt(u, most), most, u);
    u = hn::IfThenElse(hn::Lt(u, least), least, u);
    const Floats swish = hn::Mul(g, sigmoid_of(hn::Mul(hn::Set(floats, kind.beta), g)));
    store(hn::Mul(swish, hn::Add(u, hn::Set(floats, 1.0f))), out + i, count);
  });
}

void glu(const Glu& kind, const float* gate, const float* up, std::size_t n, float* out) {
  switch (kind.kind) {
    case Glu::Kind::silu:
      return silu_glu(gate, up, n, out);
    case Glu::Kind::situ:
      return situ_glu(kind, gate, up, n, out);
    case Glu::Kind::gelu:
      return gelu_glu(gate, up, n, out);
    case Glu::Kind::limited:
      return limited_glu(kind, gate, up, n, out);
  }
}

/// Tap `j` of `count` channels from `channel` on.
HWY_INLINE Floats load_tap(const float* taps_by_channel, std::size_t taps, std::size_t channel,
                           std::size_t j, std::size_t count) {
  HWY_ALIGN float lanes[kLanes] = {};
  for (std::size_t i = 0; i < count; ++i) lanes[i] = taps_by_channel[(channel + i) * taps + j];
  return hn::Load(FloatTag(), lanes);
}

void any_convolution(float* history, const float* taps_by_channel, std::size_t channels,
                     std::size_t taps, const float* x, float* out) {
  for_each_vector(channels, [=](std::size_t c, std::size_t count) HWY_ATTR {
    Floats sum = hn::Zero(FloatTag());
    for (std::size_t j = 0; j + 1 < taps; ++j) {
      float* past = history + j * channels + c;
      sum = hn::MulAdd(load_tap(taps_by_channel, taps, c, j, count), load(past, count), sum);
      const float* next = j + 2 < taps ? past + channels : x + c;
      store(load(next, count), past, count);
    }
    sum = hn::MulAdd(load_tap(taps_by_channel, taps, c, taps - 1, count), load(x + c, count), sum);
    store(hn::Mul(sum, sigmoid_of(sum)), out + c, count);
  });
}

/// Four taps, which is what the models have: loaded as vectors.
void convolution_of_four(float* history, const float* taps_by_channel, std::size_t channels,
                         const float* x, float* out) {
  const FloatTag floats;
  for_each_vector(channels, [=](std::size_t c, std::size_t count) HWY_ATTR {
    HWY_ALIGN float padded[4 * kLanes] = {};
    const float* taps = taps_by_channel + 4 * c;
    if (count < kLanes) {
      std::memcpy(padded, taps, 4 * count * sizeof(float));
      taps = padded;
    }
    Floats tap0, tap1, tap2, tap3;  // NOLINT(readability-isolate-declaration)
    hn::LoadInterleaved4(floats, taps, tap0, tap1, tap2, tap3);
    float* past = history + c;
    const Floats x1 = load(past + channels, count);
    const Floats x2 = load(past + 2 * channels, count);
    const Floats x3 = load(x + c, count);
    Floats sum = hn::Mul(tap0, load(past, count));
    sum = hn::MulAdd(tap1, x1, sum);
    sum = hn::MulAdd(tap2, x2, sum);
    sum = hn::MulAdd(tap3, x3, sum);
    store(x1, past, count);
    store(x2, past + channels, count);
    store(x3, past + 2 * channels, count);
    store(hn::Mul(sum, sigmoid_of(sum)), out + c, count);
  });
}

void short_convolution(float* history, const float* taps_by_channel, std::size_t channels,
                       std::size_t taps, const float* x, float* out) {
  if (taps == 4) {
    convolution_of_four(history, taps_by_channel, channels, x, out);
  } else {
    any_convolution(history, taps_by_channel, channels, taps, x, out);
  }
}

void kda_decay(const float* raw, std::size_t n, float a_log, bool has_bound, float bound,
               float* out) {
  const FloatTag floats;
  const float a = std::exp(a_log);
  for_each_vector(n, [=](std::size_t i, std::size_t count) HWY_ATTR {
    const Floats x = load(raw + i, count);
    const Floats log_decay =
        has_bound ? hn::Mul(hn::Set(floats, bound), sigmoid_of(hn::Mul(hn::Set(floats, a), x)))
                  : hn::Mul(hn::Set(floats, -a), softplus_of(x));
    store(exp_of(log_decay), out + i, count);
  });
}

#endif
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace sluice::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::kernels {

HWY_EXPORT(add);
HWY_EXPORT(add_scaled);
HWY_EXPORT(sigmoid);
HWY_EXPORT(multiply_sigmoid);
HWY_EXPORT(glu);
HWY_EXPORT(short_convolution);
HWY_EXPORT(kda_decay);

void add(const float* x, std::size_t n, float* y) { HWY_DYNAMIC_DISPATCH(add)(x, n, y); }

void add_scaled(float a, const float* x, std::size_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(add_scaled)(a, x, n, y);
}

void sigmoid(const float* x, std::size_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(sigmoid)(x, n, out);
}

void multiply_sigmoid(const float* gate, std::size_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(multiply_sigmoid)(gate, n, y);
}

void glu(const Glu& kind, const float* gate, const float* up, std::size_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(glu)(kind, gate, up, n, out);
}

void short_convolution(float* history, const float* taps_by_channel, std::size_t channels,
                       std::size_t taps, const float* x, float* out) {
  HWY_DYNAMIC_DISPATCH(short_convolution)(history, taps_by_channel, channels, taps, x, out);
}

void kda_decay(const float* raw, std::size_t n, float a_log, bool has_bound, float bound,
               float* out) {
  HWY_DYNAMIC_DISPATCH(kda_decay)(raw, n, a_log, has_bound, bound, out);
}

}  // namespace sluice::kernels
#endif  // HWY_ONCE
