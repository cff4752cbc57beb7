// Replaces common/backend/cuda/ptx/ptx.h, which describes the functions, by plain C++.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

namespace baton {

// The copy is made as late as it may be; until the wait its target is poisoned.
void CopyAsync16(void* shared, const void* global);
void CopyAsync16(void* shared, const void* global, int valid_bytes);
inline void CopyAsyncOfLine16(void* shared, const void* global, int valid_bytes) {
  CopyAsync16(shared, global, valid_bytes);
}
template <int kBytes>
void CopyAsync(void* shared, const void* global, bool valid);
template <int kBytes>
inline void CopyAsyncIf(bool wanted, void* shared, const void* global) {
  if (wanted) CopyAsync<kBytes>(shared, global, true);
}
void CommitCopies();
namespace cuda_shim {
void WaitForCopies(int pending_groups);
}
template <int kPending>
void WaitForCopies() {
  static_assert(kPending >= 0);
  cuda_shim::WaitForCopies(kPending);
}

inline void StoreBesideOthers(float* global, float value) { atomicExch(global, value); }

// Products are exact. They are added in ascending order of columns, with rounding after each.
void MultiplyF16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], BATON_SHIM_SITE);
void MultiplyBf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], BATON_SHIM_SITE);
void LoadMatrices(uint32_t (&out)[4], const void* row, BATON_SHIM_SITE);
void LoadMatrices(uint32_t (&out)[2], const void* row, BATON_SHIM_SITE);
void LoadMatricesTransposed(uint32_t (&out)[4], const void* row, BATON_SHIM_SITE);
void LoadMatricesTransposed(uint32_t (&out)[2], const void* row, BATON_SHIM_SITE);

inline uint32_t MaskAndSet(uint32_t bits, uint32_t mask, uint32_t ones) {
  return (bits & mask) | ones;
}

inline uint32_t MaskAndFlip(uint32_t bits, uint32_t mask, uint32_t flips) {
  return (bits & mask) ^ flips;
}

float Exp2Approximate(float x);
void WidenE4m3(uint32_t codes, uint32_t (&halves)[2]);

inline uint4 LoadStreamed16(const void* global) {
  uint4 out;
  std::memcpy(&out, __builtin_assume_aligned(global, 16), sizeof(out));
  return out;
}

inline uint4 LoadInPlace16(const void* global) { return LoadStreamed16(global); }
inline uint2 LoadInPlace8(const void* global) { return *static_cast<const uint2*>(global); }
inline void LoadInPlaceIf16(bool valid, const void* global, uint4& out) {
  if (valid) out = LoadInPlace16(global);
}
inline void LoadInPlaceIf8(bool valid, const void* global, uint2& out) {
  if (valid) out = LoadInPlace8(global);
}
inline const uint8_t* AsItIs(const uint8_t* pointer) { return pointer; }
inline int AsItIs(int value) { return value; }
inline uint32_t KeptConstant(uint32_t constant) { return constant; }

// Reads the bytes, so that a sanitizer checks their addresses.
void PrefetchToL2(const void* global, int bytes);

inline void WaitForPreviousKernel() { cuda_shim::MarkWaitedForPreviousKernel(); }
inline void LetNextKernelStart() {}

}  // namespace baton
