// The kernels in plain C++, one number after the other: what the tests compare the vector code
// with, and what runs on a processor without vector units that Highway knows. The contracts are
// those of matmul.h and ops.h; the order of additions, and so the last bits, are not the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/matmul.h"
#include "kernels/ops.h"

namespace sluice::kernels::scalar {

// matmul.h. Activations are prepared in their own order here: what prepare() of one namespace
// wrote is for matmul() of the same namespace.
void prepare(WeightFormat format, const float* x, std::size_t x_stride, std::size_t columns,
             std::size_t positions, float* prepared);
void matmul(const Rows& w, const float* prepared, std::size_t positions, float* y,
            std::size_t y_stride);
void add_transposed(const Rows& w, const float* a, float* y);
void decode_row(const Rows& w, std::size_t row, float* out);
/// A number of 16 bits; a NaN becomes quiet, as instructions do it.
float from_f16(std::uint16_t bits);

// ops.h
void rms_norm(const float* x, const float* weight, std::size_t n, float epsilon, float* out);
void l2_norm(const float* x, std::size_t n, float epsilon, float scale, float* out);
void add(const float* x, std::size_t n, float* y);
void add_scaled(float a, const float* x, std::size_t n, float* y);
void sigmoid(const float* x, std::size_t n, float* out);
void multiply_sigmoid(const float* gate, std::size_t n, float* y);
float dot(const float* a, const float* b, std::size_t n);
bool all_finite(const float* x, std::size_t n);
void glu(const Glu& kind, const float* gate, const float* up, std::size_t n, float* out);
void short_convolution(float* history, const float* taps_by_channel, std::size_t channels,
                       std::size_t taps, const float* x, float* out);
void kda_decay(const float* raw, std::size_t n, float a_log, bool has_bound, float bound,
               float* out);
void kda_step(float* state, const float* q, const float* k, const float* v, const float* decay,
              float beta, std::size_t dim, float* scratch, float* out);
void softmax(float* x, std::size_t n);
void softmax_with_sink(float* x, std::size_t n, float sink);
void attention_heads(const float* queries, std::size_t heads, const KeysAndValues& seen,
                     float scale, float* scores, float* out);
void latent_attention(const float* query, const float* cache, std::size_t count, std::size_t width,
                      std::size_t value_width, float scale, float* scores, float* out);
void latent_attention_heads(const float* queries, std::size_t heads, const float* cache,
                            std::size_t count, std::size_t width, std::size_t value_width,
                            float scale, float* scores, float* out);
void attention_residual(std::span<const float* const> sources, const float* direction,
                        std::size_t n, float epsilon, float* out);
void route(const Router& router, float* logits, const float* bias, std::int32_t* ids,
           float* weights);
std::size_t argmax(const float* x, std::size_t n);

}  // namespace sluice::kernels::scalar
