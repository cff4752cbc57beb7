#include "common/backend/cpu/elementwise.h"

#include "common/backend/exact_math.h"

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

struct SiluMultiplyKernel {
  [[gnu::always_inline]] static inline void Run(const Tensor& up, const Tensor& gate,
                                                const int& begin, const int& end) {
    const float* __restrict u = up.Row(begin);
    float* __restrict g = gate.Row(begin);
    const size_t count = static_cast<size_t>(end - begin) * static_cast<size_t>(up.columns);
    for (size_t i = 0; i < count; ++i) g[i] = SiluF(g[i]) * u[i];
  }
};

struct AddKernel {
  [[gnu::always_inline]] static inline void Run(const Tensor& in, const Tensor& out,
                                                const int& begin, const int& end) {
    const float* __restrict x = in.Row(begin);
    float* __restrict y = out.Row(begin);
    const size_t count = static_cast<size_t>(end - begin) * static_cast<size_t>(in.columns);
    for (size_t i = 0; i < count; ++i) y[i] += x[i];
  }
};

}  // namespace

void AddBiasRows(CpuIsa isa, ThreadPool& pool, const float* bias, Tensor out) {
  pool.ParallelFor(out.rows,
                   [&](int begin, int end) { RunOn<AddBiasKernel>(isa, bias, out, begin, end); });
}

void SiluMultiplyRows(CpuIsa isa, ThreadPool& pool, Tensor up, Tensor gate) {
  pool.ParallelFor(
      gate.rows, [&](int begin, int end) { RunOn<SiluMultiplyKernel>(isa, up, gate, begin, end); });
}

void AddRows(CpuIsa isa, ThreadPool& pool, Tensor in, Tensor out) {
  pool.ParallelFor(in.rows,
                   [&](int begin, int end) { RunOn<AddKernel>(isa, in, out, begin, end); });
}

}  // namespace baton
