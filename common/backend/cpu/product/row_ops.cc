#include "common/backend/cpu/product/row_ops.h"

#include "common/backend/cpu/simd/lanes.h"
#include "common/backend/exact_math.h"
#include "common/base/check.h"

namespace baton {
namespace {

// 1 / sqrt(mean(x^2) + epsilon).
[[gnu::always_inline]] inline float InverseRoot(const float* x, int count, float epsilon) {
  Lanes sums = {};
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      sums.v[l] = __builtin_fmaf(x[i + l], x[i + l], sums.v[l]);
    }
  }
  for (int l = 0; i + l < count; ++l) sums.v[l] = __builtin_fmaf(x[i + l], x[i + l], sums.v[l]);
  return 1.0f / __builtin_sqrtf(FoldLanes(sums) / static_cast<float>(count) + epsilon);
}

struct Norm {
  const float* gain;
  int size;
  float epsilon;
};

struct NormGroupsKernel {
  [[gnu::always_inline]] static inline void Run(const Norm& norm, const Tensor& values,
                                                const int& begin, const int& end) {
    for (int row = begin; row < end; ++row) {
      for (int column = 0; column < values.columns; column += norm.size) {
        float* x = values.Row(row) + column;
        const float inverse = InverseRoot(x, norm.size, norm.epsilon);
        for (int i = 0; i < norm.size; ++i) x[i] = x[i] * inverse * norm.gain[i];
      }
    }
  }
};

struct AddNormKernel {
  [[gnu::always_inline]] static inline void Run(const Tensor& in, const Norm& norm,
                                                const float& scale, const Tensor& out,
                                                const int& begin, const int& end) {
    for (int row = begin; row < end; ++row) {
      const float* x = in.Row(row);
      float* y = out.Row(row);
      const float inverse = InverseRoot(x, norm.size, norm.epsilon);
      for (int i = 0; i < norm.size; ++i) {
        y[i] = __builtin_fmaf(scale, x[i] * inverse * norm.gain[i], y[i]);
      }
    }
  }
};

struct ScaleKernel {
  [[gnu::always_inline]] static inline void Run(const float& factor, const Tensor& values,
                                                const int& begin, const int& end) {
    for (int row = begin; row < end; ++row) {
      float* x = values.Row(row);
      for (int i = 0; i < values.columns; ++i) x[i] *= factor;
    }
  }
};

struct SoftCapKernel {
  [[gnu::always_inline]] static inline void Run(const float& cap, const Tensor& values,
                                                const int& begin, const int& end) {
    for (int row = begin; row < end; ++row) {
      float* x = values.Row(row);
      for (int i = 0; i < values.columns; ++i) {
        x[i] = cap * (1.0f - 2.0f / (1.0f + ExpF(2.0f * (x[i] / cap))));
      }
    }
  }
};

}  // namespace

void NormGroupsOfRows(CpuIsa isa, ThreadPool& pool, const float* gain, int size, float epsilon,
                      Tensor values) {
  BATON_CHECK(size > 0 && values.columns % size == 0, "the columns must be whole groups",
              values.columns);
  const Norm norm = {.gain = gain, .size = size, .epsilon = epsilon};
  pool.ParallelFor(values.rows, [&](int begin, int end) {
    RunOn<NormGroupsKernel>(isa, norm, values, begin, end);
  });
}

void AddNormOfRows(CpuIsa isa, ThreadPool& pool, Tensor in, const float* gain, float epsilon,
                   float scale, Tensor out) {
  const Norm norm = {.gain = gain, .size = in.columns, .epsilon = epsilon};
  pool.ParallelFor(out.rows, [&](int begin, int end) {
    RunOn<AddNormKernel>(isa, in, norm, scale, out, begin, end);
  });
}

void ScaleRows(CpuIsa isa, ThreadPool& pool, float factor, Tensor values) {
  pool.ParallelFor(values.rows, [&](int begin, int end) {
    RunOn<ScaleKernel>(isa, factor, values, begin, end);
  });
}

void SoftCapRows(CpuIsa isa, ThreadPool& pool, float cap, Tensor values) {
  pool.ParallelFor(values.rows,
                   [&](int begin, int end) { RunOn<SoftCapKernel>(isa, cap, values, begin, end); });
}

}  // namespace baton
