// CUDA's qualifiers and small vector types, for kernels compiled as C++.
#pragma once

#include <cstdint>

#define __global__
#define __device__
#define __host__
#define __shared__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)

#define BATON_SHIM_VECTOR(Scalar, name, alignment2, alignment4)                     \
  struct name##1 {                                                                  \
    Scalar x;                                                                       \
  };                                                                                \
  struct alignas(alignment2) name##2 {                                              \
    Scalar x, y;                                                                    \
  };                                                                                \
  struct name##3 {                                                                  \
    Scalar x, y, z;                                                                 \
  };                                                                                \
  struct alignas(alignment4) name##4 {                                              \
    Scalar x, y, z, w;                                                              \
  };                                                                                \
  inline name##2 make_##name##2(Scalar x, Scalar y) { return {x, y}; }              \
  inline name##3 make_##name##3(Scalar x, Scalar y, Scalar z) { return {x, y, z}; } \
  inline name##4 make_##name##4(Scalar x, Scalar y, Scalar z, Scalar w) { return {x, y, z, w}; }

BATON_SHIM_VECTOR(float, float, 8, 16)
BATON_SHIM_VECTOR(int, int, 8, 16)
BATON_SHIM_VECTOR(unsigned int, uint, 8, 16)
BATON_SHIM_VECTOR(short, short, 4, 8)
BATON_SHIM_VECTOR(unsigned short, ushort, 4, 8)
BATON_SHIM_VECTOR(signed char, char, 2, 4)
BATON_SHIM_VECTOR(unsigned char, uchar, 2, 4)
#undef BATON_SHIM_VECTOR

struct alignas(16) double2 {
  double x, y;
};
struct alignas(16) longlong2 {
  long long x, y;
};
struct alignas(16) ulonglong2 {
  unsigned long long x, y;
};
inline double2 make_double2(double x, double y) { return {x, y}; }
inline longlong2 make_longlong2(long long x, long long y) { return {x, y}; }
inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }

struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int columns = 1, unsigned int rows = 1, unsigned int layers = 1)
      : x(columns), y(rows), z(layers) {}
};

// The indices of the running thread. One launch runs at a time.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
inline constexpr int warpSize = 32;
