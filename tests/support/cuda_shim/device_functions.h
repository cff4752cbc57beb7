// The functions of CUDA that kernels may call. Some are missing on purpose: atomics of floats,
// whose order is undefined, and approximations, which differ from chip to chip.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>
#include <utility>

#include "tests/support/cuda_shim/fibers.h"
#include "tests/support/cuda_shim/vector_types.h"

using std::max;
using std::min;

#define BATON_SHIM_SITE const std::source_location& site = std::source_location::current()

inline void __syncthreads(BATON_SHIM_SITE) { baton::cuda_shim::BlockBarrier(site); }
inline void __syncwarp(unsigned mask = 0xffffffffu, BATON_SHIM_SITE) {
  baton::cuda_shim::MeetInWarp("__syncwarp", mask, nullptr, 0, site, &baton::cuda_shim::OrderWarp);
}
inline void __threadfence() { baton::cuda_shim::Fence(); }
inline void __threadfence_block() {}
inline void __threadfence_system() { baton::cuda_shim::Fence(); }
[[noreturn]] inline void __trap() { baton::cuda_shim::Fail("__trap()"); }

namespace baton::cuda_shim {

// Returns `value` of the lane `source`, which is 0 to 31.
template <class T>
T Shuffle(const char* collective, unsigned mask, T value, int source,
          const std::source_location& site) {
  static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  const LaneData* const lanes = MeetInWarp(collective, mask, &value, sizeof(T), site);
  T out;
  std::memcpy(&out, lanes[source].bytes, sizeof(T));
  return out;
}

}  // namespace baton::cuda_shim

// `width` (a power of two) divides the warp into segments. A lane that names a lane outside its own
// segment gets its own value.
template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, BATON_SHIM_SITE) {
  const int own = baton::cuda_shim::ThreadLane();
  const int source = (own & ~(width - 1)) | (lane & (width - 1));
  return baton::cuda_shim::Shuffle("__shfl_sync", mask, value, source, site);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, BATON_SHIM_SITE) {
  const int own = baton::cuda_shim::ThreadLane();
  int source = own ^ lane_mask;
  // A lane of an earlier segment may be named, one of a later segment may not.
  if (source > (own | (width - 1))) source = own;
  return baton::cuda_shim::Shuffle("__shfl_xor_sync", mask, value, source & 31, site);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, BATON_SHIM_SITE) {
  const int own = baton::cuda_shim::ThreadLane();
  const int source = own + static_cast<int>(delta);
  return baton::cuda_shim::Shuffle("__shfl_down_sync", mask, value,
                                   source > (own | (width - 1)) ? own : source, site);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, BATON_SHIM_SITE) {
  const int own = baton::cuda_shim::ThreadLane();
  const int source = own - static_cast<int>(delta);
  return baton::cuda_shim::Shuffle("__shfl_up_sync", mask, value,
                                   source < (own & ~(width - 1)) ? own : source, site);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, BATON_SHIM_SITE) {
  const uint8_t own = predicate != 0;
  const auto* lanes = baton::cuda_shim::MeetInWarp("__ballot_sync", mask, &own, 1, site);
  unsigned ballot = 0;
  for (int i = 0; i < 32; ++i) ballot |= unsigned{lanes[i].bytes[0]} << i;
  return ballot;
}
inline int __any_sync(unsigned mask, int predicate, BATON_SHIM_SITE) {
  return __ballot_sync(mask, predicate, site) != 0;
}
inline int __all_sync(unsigned mask, int predicate, BATON_SHIM_SITE) {
  return __ballot_sync(mask, predicate, site) == 0xffffffffu;
}

namespace baton::cuda_shim {

// Threads are switched at collectives only, so plain operations are atomic. They are told to the
// race detector as what they are.
template <class T, class Change>
__attribute__((no_sanitize("thread"))) T ChangeAtomically(T* at, const Change& change) {
  NoteAtomic(at, sizeof(T));
  const T before = *at;
  *at = change(before);
  return before;
}

}  // namespace baton::cuda_shim

#define BATON_SHIM_ATOMIC(NAME, T, NEXT)                               \
  inline T NAME(T* at, T value) {                                      \
    return baton::cuda_shim::ChangeAtomically(                         \
        at, [value]([[maybe_unused]] T before) -> T { return NEXT; }); \
  }
#define BATON_SHIM_ATOMICS(T)                                                     \
  BATON_SHIM_ATOMIC(atomicExch, T, value)                                         \
  BATON_SHIM_ATOMIC(atomicAdd, T,                                                 \
                    static_cast<T>(static_cast<std::make_unsigned_t<T>>(before) + \
                                   static_cast<std::make_unsigned_t<T>>(value)))  \
  BATON_SHIM_ATOMIC(atomicMax, T, std::max(before, value))                        \
  BATON_SHIM_ATOMIC(atomicMin, T, std::min(before, value))                        \
  BATON_SHIM_ATOMIC(atomicOr, T, before | value)                                  \
  BATON_SHIM_ATOMIC(atomicAnd, T, before& value)                                  \
  inline T atomicCAS(T* at, T expected, T value) {                                \
    return baton::cuda_shim::ChangeAtomically(                                    \
        at, [=](T before) { return before == expected ? value : before; });       \
  }
BATON_SHIM_ATOMIC(atomicExch, float, value)
BATON_SHIM_ATOMICS(int)
BATON_SHIM_ATOMICS(unsigned)
BATON_SHIM_ATOMICS(unsigned long long)
#undef BATON_SHIM_ATOMICS
#undef BATON_SHIM_ATOMIC
inline int atomicSub(int* at, int value) { return atomicAdd(at, -value); }
inline unsigned atomicSub(unsigned* at, unsigned value) { return atomicAdd(at, 0u - value); }
inline unsigned atomicInc(unsigned* at, unsigned last) {
  return baton::cuda_shim::ChangeAtomically(
      at, [last](unsigned before) { return before >= last ? 0 : before + 1; });
}

// Loads and stores with a hint for the caches, which is ignored.
template <class T>
T __ldg(const T* at) {
  return *at;
}
template <class T>
T __ldcs(const T* at) {
  return *at;
}
template <class T>
T __ldcg(const T* at) {
  return *at;
}
template <class T>
T __ldca(const T* at) {
  return *at;
}
template <class T>
void __stcs(T* at, T value) {
  *at = value;
}
template <class T>
void __stwb(T* at, T value) {
  *at = value;
}
template <class T>
void __stcg(T* at, T value) {
  *at = value;
}

// Arithmetic in which each function rounds once, whatever the compiler may fuse.
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __ddiv_rn(double a, double b) { return a / b; }

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline int __float2int_rn(float x) { return static_cast<int>(std::nearbyint(x)); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }
inline int __float2int_rd(float x) { return static_cast<int>(std::floor(x)); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline long long __double2ll_rn(double x) { return static_cast<long long>(std::nearbyint(x)); }

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline int __ffsll(long long x) {
  return x == 0 ? 0 : std::countr_zero(static_cast<unsigned long long>(x)) + 1;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((uint64_t{a} * b) >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64);
}
// Selects four of the eight bytes of (a, b), counted from the lowest of a. The low three bits of
// each hexadecimal digit of `selector` give the number of a byte.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  unsigned out = 0;
  for (int i = 0; i < 4; ++i) {
    out |= static_cast<unsigned>(bytes >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
  }
  return out;
}
// Returns c plus the dot product of four signed bytes.
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) {
    c += static_cast<int8_t>(a >> (8 * i)) * static_cast<int8_t>(b >> (8 * i));
  }
  return c;
}
