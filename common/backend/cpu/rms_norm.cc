#include "common/backend/cpu/rms_norm.h"

#include "common/backend/cpu/lanes.h"

namespace baton {
namespace {

struct RmsNormKernel {
  [[gnu::always_inline]] static inline void Run(const Tensor& in, const float* const& gain,
                                                const float& epsilon, const Tensor& out,
                                                const int& begin, const int& end) {
    for (int row = begin; row < end; ++row) {
      const float* x = in.Row(row);
      float* y = out.Row(row);
      const float mean = DotLanes(x, x, in.columns) / static_cast<float>(in.columns);
      const float inverse = 1.0f / __builtin_sqrtf(mean + epsilon);
      for (int i = 0; i < in.columns; ++i) y[i] = x[i] * inverse * gain[i];
    }
  }
};

}  // namespace

void NormalizeRows(CpuIsa isa, ThreadPool& pool, Tensor in, const float* gain, float epsilon,
                   Tensor out) {
  pool.ParallelFor(in.rows, [&](int begin, int end) {
    RunOn<RmsNormKernel>(isa, in, gain, epsilon, out, begin, end);
  });
}

}  // namespace baton
