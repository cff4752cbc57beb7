// Kernels of a few lines, for tests of scripts/sass_gate.py. `excerpts.sass` is what nvcc makes of them:
//   nvcc -std=c++20 -O3 -cubin -arch=sm_90a -o excerpts.cubin excerpts.cu
//   nvdisasm -c excerpts.cubin | grep -v 'NOP;$' > excerpts.sass
#include <cstdint>

static __device__ uint4 LoadStreamed16(const uint4* from) {
  uint4 out;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(out.x), "=r"(out.y), "=r"(out.z), "=r"(out.w)
               : "l"(from));
  return out;
}

static __device__ float Dot(const uint4& a, float x, float sum) {
  sum = __fmaf_rn(__uint_as_float(a.x), x, sum);
  sum = __fmaf_rn(__uint_as_float(a.y), x, sum);
  sum = __fmaf_rn(__uint_as_float(a.z), x, sum);
  return __fmaf_rn(__uint_as_float(a.w), x, sum);
}

// A loop inside a loop: the inner one streams 16 bytes a lane. Whether its sum is halved is seldom asked.
__global__ void __launch_bounds__(256)
    StreamRows(const uint4* in, const float* x, int rows, int count, float* out) {
  for (int row = 0; row < rows; ++row) {
    float sum = 0;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < count; i += 256) {
      sum = Dot(LoadStreamed16(in + static_cast<size_t>(row) * count + i), x[row], sum);
      if (sum > 1e30f) {
        sum *= 0.5f;
        out[rows + row] = 1;
      }
    }
    out[row * 256 + threadIdx.x] = sum;
  }
}

// The same with loads of 4 bytes.
__global__ void __launch_bounds__(256)
    StreamNarrow(const float* in, float x, int count, float* out) {
  float sum = 0;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < count; i += 256)
    sum = __fmaf_rn(__ldg(in + i), x, sum);
  out[threadIdx.x] = sum;
}

// 40 sums in a loop, with the 32 registers that 2,048 threads on a multiprocessor leave.
__global__ void __launch_bounds__(1024, 2) SpillSums(const uint4* in, int count, float* out) {
  float sums[40] = {};
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < count; i += 1024) {
    const float value = __uint_as_float(LoadStreamed16(in + i).x);
#pragma unroll
    for (int k = 0; k < 40; ++k) sums[k] = __fmaf_rn(value, value, sums[k] * 0.5f);
  }
#pragma unroll
  for (int k = 0; k < 40; ++k) out[k * 1024 + threadIdx.x] = sums[k];
}

static __device__ void MultiplyBf16(float (&sums)[4], const uint4& a, const uint2& b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
}

// Four tensor-core operations in a loop; where a rare flag asks for it, one more with a mask.
__global__ void __launch_bounds__(128)
    Multiply(const uint4* in, uint2 b, const int* flags, int count, float* out) {
  float sums[4] = {};
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    uint4 a = LoadStreamed16(in + i * 128 + threadIdx.x);
#pragma unroll
    for (int k = 0; k < 4; ++k) MultiplyBf16(sums, a, b);
    const int flag = flags[i];
    if (flag != 0) {
      a.x = a.x * flag ^ a.y;
      a.y = a.y * flag ^ a.z;
      a.z = a.z * flag ^ a.w;
      a.w = a.w * flag ^ a.x;
      MultiplyBf16(sums, a, b);
      out[512 + i] = sums[0] * sums[1] * sums[2] * sums[3];
    }
  }
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = sums[i];
}

// No loop.
__global__ void __launch_bounds__(256) AddOne(float4* at, int count) {
  const int i = static_cast<int>(blockIdx.x * 256 + threadIdx.x);
  if (i >= count) return;
  float4 value = at[i];
  value.x += 1;
  at[i] = value;
}
