#include "common/backend/cpu/quantize.h"

#include <algorithm>
#include <bit>

namespace baton {
namespace {

struct QuantizeKernel {
  [[gnu::always_inline]] static inline float MaxMagnitude(const float* x) {
    // Compared as integers, which orders non-negative floats and vectorises.
    uint32_t max_bits = 0;
    for (int k = 0; k < kQuantBlock; ++k) {
      const uint32_t bits = std::bit_cast<uint32_t>(x[k]) & 0x7fffffffu;
      max_bits = bits > max_bits ? bits : max_bits;
    }
    return std::bit_cast<float>(max_bits);
  }

  [[gnu::always_inline]] static inline void Run(const Tensor& in, QuantizedRows* const& out,
                                                const int& begin, const int& end) {
    constexpr float kRound = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
    for (int i = begin * out->blocks; i < end * out->blocks; ++i) {
      const float* x = in.data + static_cast<size_t>(i) * kQuantBlock;
      int16_t* values = out->values.data() + static_cast<size_t>(i) * kQuantBlock;
      const float max = MaxMagnitude(x);
      const bool zero = max < 0x1p-100f;
      const float inverse = zero ? 0.0f : 127.0f / max;
      int32_t sum = 0;
      for (int k = 0; k < kQuantBlock; ++k) {
        const uint32_t bits = std::bit_cast<uint32_t>(x[k] * inverse + kRound);
        values[k] = static_cast<int16_t>(bits - std::bit_cast<uint32_t>(kRound));
        sum += values[k];
      }
      out->scales[static_cast<size_t>(i)] = zero ? 0.0f : max / 127.0f;
      out->sums[static_cast<size_t>(i)] = sum;
    }
  }
};

}  // namespace

void QuantizeRows(CpuIsa isa, ThreadPool& pool, Tensor in, QuantizedRows& out) {
  out.blocks = in.columns / kQuantBlock;
  const size_t blocks = static_cast<size_t>(in.rows) * static_cast<size_t>(out.blocks);
  if (out.scales.size() < blocks) {
    out.values.resize(blocks * kQuantBlock);
    out.scales.resize(blocks);
    out.sums.resize(blocks);
  }
  QuantizedRows* target = &out;
  pool.ParallelFor(in.rows,
                   [&](int begin, int end) { RunOn<QuantizeKernel>(isa, in, target, begin, end); });
}

}  // namespace baton
