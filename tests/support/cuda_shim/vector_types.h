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

// An access of a vector is one access, as on a device. It would be one of each element where `*at =
// {x, y}` stored them one by one: the constructors make a vector first, which is then copied whole.
// `*at = {}` is still one of each.
#define BATON_SHIM_PAIR(Scalar, name, alignment)       \
  struct alignas(alignment) name {                     \
    Scalar x, y;                                       \
    name() = default;                                  \
    constexpr name(Scalar a, Scalar b) : x(a), y(b) {} \
  };                                                   \
  constexpr name make_##name(Scalar a, Scalar b) { return {a, b}; }
#define BATON_SHIM_VECTOR(Scalar, name, alignment2, alignment4)                           \
  struct name##1 {                                                                        \
    Scalar x;                                                                             \
  };                                                                                      \
  BATON_SHIM_PAIR(Scalar, name##2, alignment2)                                            \
  struct name##3 {                                                                        \
    Scalar x, y, z;                                                                       \
  };                                                                                      \
  struct alignas(alignment4) name##4 {                                                    \
    Scalar x, y, z, w;                                                                    \
    name##4() = default;                                                                  \
    constexpr name##4(Scalar a, Scalar b, Scalar c, Scalar d) : x(a), y(b), z(c), w(d) {} \
  };                                                                                      \
  inline name##3 make_##name##3(Scalar a, Scalar b, Scalar c) { return {a, b, c}; }       \
  constexpr name##4 make_##name##4(Scalar a, Scalar b, Scalar c, Scalar d) { return {a, b, c, d}; }

BATON_SHIM_VECTOR(float, float, 8, 16)
BATON_SHIM_VECTOR(int, int, 8, 16)
BATON_SHIM_VECTOR(unsigned int, uint, 8, 16)
BATON_SHIM_VECTOR(short, short, 4, 8)
BATON_SHIM_VECTOR(unsigned short, ushort, 4, 8)
BATON_SHIM_VECTOR(signed char, char, 2, 4)
BATON_SHIM_VECTOR(unsigned char, uchar, 2, 4)
BATON_SHIM_PAIR(double, double2, 16)
BATON_SHIM_PAIR(long long, longlong2, 16)
BATON_SHIM_PAIR(unsigned long long, ulonglong2, 16)
#undef BATON_SHIM_VECTOR
#undef BATON_SHIM_PAIR

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
