// Instructions that CUDA C++ has no function for. Included as "ptx.h": the include path selects
// this file or, where kernels run on the CPU, a file of the same name with the same functions in
// plain C++. PTX ISA: https://docs.nvidia.com/cuda/parallel-thread-execution/
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace baton {

// --- Copies from global to shared memory that the thread does not wait for. Both addresses are
// --- multiples of the copy's bytes. The thread may read the copied bytes after WaitForCopies,
// --- other threads after a barrier that follows it.

__device__ inline uint32_t SharedAddress(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

__device__ inline void CopyAsync16(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(SharedAddress(shared)), "l"(global)
               : "memory");
}

// Reads the first `valid_bytes` of 16 (0 to 16); the other bytes become zero.
__device__ inline void CopyAsync16(void* shared, const void* global, int valid_bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(shared)),
               "l"(global), "r"(valid_bytes)
               : "memory");
}

// The same, and brings the 128 bytes that the 16 are of into the L2 cache: for rows that are far
// apart in memory and read 64 bytes at a time.
__device__ inline void CopyAsyncOfLine16(void* shared, const void* global, int valid_bytes) {
  asm volatile(
      "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(SharedAddress(shared)),
      "l"(global), "r"(valid_bytes)
      : "memory");
}

// Copies kBytes (4, 8 or 16), through the L1 cache, if `valid`; otherwise they become zero.
template <int kBytes>
__device__ inline void CopyAsync(void* shared, const void* global, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(SharedAddress(shared)),
               "l"(global), "n"(kBytes), "r"(valid ? kBytes : 0)
               : "memory");
}

// Copies kBytes if `wanted`, without a branch; otherwise does nothing.
template <int kBytes>
__device__ inline void CopyAsyncIf(bool wanted, void* shared, const void* global) {
  asm volatile(
      "{ .reg .pred p; setp.ne.u32 p, %3, 0; @p cp.async.ca.shared.global [%0], [%1], %2; }" ::"r"(
          SharedAddress(shared)),
      "l"(global), "n"(kBytes), "r"(static_cast<uint32_t>(wanted))
      : "memory");
}

// Ends a group, which has the thread's copies since the last group.
__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most the thread's last kPending groups are in flight.
template <int kPending>
__device__ inline void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Other threads may store there at the same time: one of their values stays.
__device__ inline void StoreBesideOthers(float* global, float value) {
  asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(global), "f"(value) : "memory");
}

// --- Tensor cores. All 32 lanes of a warp call these functions together. With g = lane / 4 and
// --- t = lane % 4, each register of a lane holds two 16-bit elements, the lower column (of b: the
// --- lower row) in the lower half; d is float32:
//   a [16, 16]: a[0] row g, columns 2t and 2t + 1
//               a[1] row g + 8, columns 2t and 2t + 1
//               a[2] row g, columns 2t + 8 and 2t + 9
//               a[3] row g + 8, columns 2t + 8 and 2t + 9
//   b [16, 8]:  b[0] rows 2t and 2t + 1 of column g
//               b[1] rows 2t + 8 and 2t + 9 of column g
//   d [16, 8]:  d[0], d[1] row g, columns 2t and 2t + 1
//               d[2], d[3] row g + 8, columns 2t and 2t + 1

// d += a x b.
__device__ inline void MultiplyF16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ inline void MultiplyBf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Loads matrices [8, 8] of 16-bit elements from shared memory. Lane 8m + i names the 16 bytes of
// row i of matrix m. Of each matrix a lane gets row g, columns 2t and 2t + 1; transposed, it gets
// column g, rows 2t and 2t + 1. With two matrices the addresses of lanes 16 to 31 are not used, but
// must be valid.
__device__ inline void LoadMatrices(uint32_t (&out)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(SharedAddress(row))
               : "memory");
}
__device__ inline void LoadMatrices(uint32_t (&out)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(out[0]), "=r"(out[1])
               : "r"(SharedAddress(row))
               : "memory");
}
__device__ inline void LoadMatricesTransposed(uint32_t (&out)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(SharedAddress(row))
               : "memory");
}
__device__ inline void LoadMatricesTransposed(uint32_t (&out)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(out[0]), "=r"(out[1])
               : "r"(SharedAddress(row))
               : "memory");
}

// --- Bits.

// (bits & mask) | ones, in one instruction, which the compiler does not make of it where both are
// constants.
__device__ inline uint32_t MaskAndSet(uint32_t bits, uint32_t mask, uint32_t ones) {
  uint32_t out;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(out) : "r"(bits), "r"(mask), "r"(ones));
  return out;
}

// (bits & mask) ^ flips, likewise.
__device__ inline uint32_t MaskAndFlip(uint32_t bits, uint32_t mask, uint32_t flips) {
  uint32_t out;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(out) : "r"(bits), "r"(mask), "r"(flips));
  return out;
}

// The pointer itself, whose origin the compiler does not see: else it may add its terms again at
// every use in a loop. What it points to is no longer known to be in global memory.
__device__ inline const uint8_t* AsItIs(const uint8_t* pointer) {
  asm volatile("" : "+l"(pointer));
  return pointer;
}

__device__ inline int AsItIs(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

// A constant in a register. The assembler would make it anew at every use; so it must not see that this
// is one. No block has 2^16 threads.
__device__ inline uint32_t KeptConstant(uint32_t constant) {
  uint32_t threads;
  asm("mov.u32 %0, %%ntid.x;" : "=r"(threads));
  return constant + (threads >> 16);
}

// --- Arithmetic.

// The E4M3 codes in bytes 0 and 1 of `codes` as two __half, and those in bytes 2 and 3: exactly, but
// for the code that is a NaN, which becomes one or 480.
__device__ inline void WidenE4m3(uint32_t codes, uint32_t (&halves)[2]) {
#if __CUDA_ARCH__ >= 890
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; "
      "cvt.rn.f16x2.e4m3x2 %0, low; cvt.rn.f16x2.e4m3x2 %1, high; }"
      : "=r"(halves[0]), "=r"(halves[1])
      : "r"(codes));
#else
  // Where a __half has its bits, those of E4M3 are 2^-8 of the number, because of the biases 15 and 7.
  for (int i = 0; i < 2; ++i) {
    const uint32_t spread = __byte_perm(codes, 0, i == 0 ? 0x1404 : 0x3424);
    const uint32_t small = (spread & 0x80008000u) | (spread >> 1 & 0x3f803f80u);
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(halves[i]) : "r"(small), "r"(0x5c005c00u));
  }
#endif
}

// 2^x in one instruction, with an error of at most 2 units in the last place. Subnormal results
// become zero.
__device__ inline float Exp2Approximate(float x) {
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
}

// --- Loads and prefetches of global memory.

// Loads 16 bytes that are not read again soon, such as a weight's: they take no place in the L1
// cache. The bytes must not be written while the kernel runs.
__device__ inline uint4 LoadStreamed16(const void* global) {
  uint4 out;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(out.x), "=r"(out.y), "=r"(out.z), "=r"(out.w)
               : "l"(global));
  return out;
}

// Loads 16 bytes at this place among the operations of the tensor cores: the compiler brings other
// loads forward, more of them than there are registers for.
__device__ inline uint4 LoadInPlace16(const void* global) {
  uint4 out;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(out.x), "=r"(out.y), "=r"(out.z), "=r"(out.w)
               : "l"(global)
               : "memory");
  return out;
}

__device__ inline uint2 LoadInPlace8(const void* global) {
  uint2 out;
  asm volatile("ld.global.v2.u32 {%0, %1}, [%2];"
               : "=r"(out.x), "=r"(out.y)
               : "l"(global)
               : "memory");
  return out;
}

// The same into `out`, which stays what it is unless `valid`. Without a branch.
__device__ inline void LoadInPlaceIf16(bool valid, const void* global, uint4& out) {
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %5, 0; @p ld.global.v4.u32 {%0, %1, %2, %3}, [%4]; }"
               : "+r"(out.x), "+r"(out.y), "+r"(out.z), "+r"(out.w)
               : "l"(global), "r"(static_cast<uint32_t>(valid))
               : "memory");
}
__device__ inline void LoadInPlaceIf8(bool valid, const void* global, uint2& out) {
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0; @p ld.global.v2.u32 {%0, %1}, [%2]; }"
               : "+r"(out.x), "+r"(out.y)
               : "l"(global), "r"(static_cast<uint32_t>(valid))
               : "memory");
}

// Brings `bytes` bytes into the L2 cache, where the device can. REQUIRES: `global` and `bytes` are
// multiples of 16.
__device__ inline void PrefetchToL2(const void* global, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(global), "r"(bytes) : "memory");
#endif
}

// --- Kernels that overlap (LaunchOptions::may_start_early).

// Returns when the previous kernel has ended and its writes are visible. Before this call a kernel
// may read weights and the like, and must write nothing.
__device__ inline void WaitForPreviousKernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Once all threads have called this or ended, the next kernel may start and run up to its
// WaitForPreviousKernel.
__device__ inline void LetNextKernelStart() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace baton
