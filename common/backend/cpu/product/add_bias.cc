#include "common/backend/cpu/product/add_bias.h"

namespace baton {
namespace {

struct AddBiasKernel {
  [[gnu::always_inline]] static inline void Run(const float* const& bias, const Tensor& out,
                                                const int& begin, const int& end) {
    for (int row = begin; row < end; ++row) {
      float* y = out.Row(row);
      for (int i = 0; i < out.columns; ++i) y[i] += bias[i];
    }
  }
};

}  // namespace

void AddBiasRows(CpuIsa isa, ThreadPool& pool, const float* bias, Tensor out) {
  pool.ParallelFor(out.rows,
                   [&](int begin, int end) { RunOn<AddBiasKernel>(isa, bias, out, begin, end); });
}

}  // namespace baton
