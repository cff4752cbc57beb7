// Tests of ptx.h in plain C++, with fragments as the PTX ISA defines them.
#include "ptx.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

#include "tests/support/cuda_shim/every_fiber_order.h"

namespace baton {

constexpr int kRows = 16;
constexpr int kColumns = 8;
constexpr int kDepth = 16;

template <bool kBf16>
__device__ void MultiplyTile(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  if constexpr (kBf16) {
    MultiplyBf16(d, a, b);
  } else {
    MultiplyF16(d, a, b);
  }
}

// Computes d += a x b with fragments gathered element by element, by the formulas of the PTX ISA,
// "Matrix Fragments for mma.m16n8k16".
template <bool kBf16>
static __global__ void GatherKernel(const uint16_t* a, const uint16_t* b, float* d) {
  const int lane = static_cast<int>(threadIdx.x);
  const int group = lane >> 2;
  const int in_group = lane % 4;
  uint16_t a_elements[8];
  for (int i = 0; i < 8; ++i) {
    const int row = (0 <= i && i < 2) || (4 <= i && i < 6) ? group : group + 8;
    const int column = in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0);
    a_elements[i] = a[row * kDepth + column];
  }
  uint16_t b_elements[4];
  for (int i = 0; i < 4; ++i) {
    const int row = in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0);
    b_elements[i] = b[row * kColumns + group];
  }
  uint32_t a_registers[4];
  uint32_t b_registers[2];
  std::memcpy(a_registers, a_elements, sizeof(a_registers));
  std::memcpy(b_registers, b_elements, sizeof(b_registers));
  float d_registers[4];
  for (int i = 0; i < 4; ++i) {
    d_registers[i] = d[(i < 2 ? group : group + 8) * kColumns + in_group * 2 + (i & 1)];
  }
  MultiplyTile<kBf16>(d_registers, a_registers, b_registers);
  for (int i = 0; i < 4; ++i) {
    d[(i < 2 ? group : group + 8) * kColumns + in_group * 2 + (i & 1)] = d_registers[i];
  }
}

// Computes d += a x b with fragments that ldmatrix loads: a [rows, depth]; b [columns, depth], or
// [depth, columns] and transposed by the load.
static __global__ void LoadKernel(const uint16_t* a, const uint16_t* b, bool transposed, float* d) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  uint16_t* const a_tile = reinterpret_cast<uint16_t*>(shared_memory);
  uint16_t* const b_tile = a_tile + kRows * kDepth;
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < kRows * kDepth; i += 32) a_tile[i] = a[i];
  for (int i = lane; i < kColumns * kDepth; i += 32) b_tile[i] = b[i];
  __syncwarp();
  uint32_t a_registers[4];
  uint32_t b_registers[2];
  LoadMatrices(a_registers, a_tile + lane % 16 * kDepth + lane / 16 * 8);
  if (transposed) {
    LoadMatricesTransposed(b_registers, b_tile + lane % 16 * kColumns);
  } else {
    LoadMatrices(b_registers, b_tile + lane % 8 * kDepth + lane / 8 % 2 * 8);
  }
  float d_registers[4] = {};
  MultiplyF16(d_registers, a_registers, b_registers);
  for (int i = 0; i < 4; ++i) {
    d[(lane / 4 + i / 2 * 8) * kColumns + lane % 4 * 2 + i % 2] = d_registers[i];
  }
}

template <int kCount, bool kTransposed>
static __global__ void LoadMatricesKernel(const uint16_t* in, uint16_t* out) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  uint16_t* const tile = reinterpret_cast<uint16_t*>(shared_memory);
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 256; i += 32) tile[i] = in[i];
  __syncwarp();
  uint32_t registers[kCount];
  const uint16_t* const row = tile + lane * 8;
  if constexpr (kTransposed) {
    LoadMatricesTransposed(registers, row);
  } else {
    LoadMatrices(registers, row);
  }
  // Overwrites the tile at once: the load must have been complete for the whole warp.
  for (int i = 0; i < 8; ++i) tile[lane * 8 + i] = 0;
  for (int i = 0; i < kCount; ++i) {
    out[(lane * kCount + i) * 2] = static_cast<uint16_t>(registers[i]);
    out[(lane * kCount + i) * 2 + 1] = static_cast<uint16_t>(registers[i] >> 16);
  }
}

// Starts three groups of copies and reads shared memory after each wait.
static __global__ void CopyKernel(const uint32_t* in, uint32_t* out, bool with_wait) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  uint32_t* const copied = reinterpret_cast<uint32_t*>(shared_memory);
  const int thread = static_cast<int>(threadIdx.x);
  for (int group = 0; group < 3; ++group) {
    CopyAsync16(copied + (group * 64 + thread) * 4, in + (group * 64 + thread) * 4,
                group == 2 ? thread % 17 : 16);
    CommitCopies();
  }
  const auto take = [&](int snapshot) {
    __syncthreads();
    for (int i = thread; i < 3 * 256; i += 64) out[snapshot * 3 * 256 + i] = copied[i];
    __syncthreads();
  };
  if (with_wait) WaitForCopies<2>();
  take(0);
  if (with_wait) WaitForCopies<0>();
  take(1);
}

// Copies an `Element` at a time, of which every third copy has no valid bytes and gives a zero.
template <class Element>
static __global__ void SmallCopyKernel(const Element* in, Element* out) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  auto* const copied = reinterpret_cast<Element*>(shared_memory);
  const int thread = static_cast<int>(threadIdx.x);
  CopyAsync<sizeof(Element)>(copied + thread, in + thread, thread % 3 != 0);
  CommitCopies();
  out[thread] = copied[thread];
  WaitForCopies<0>();
  __syncthreads();
  out[64 + thread] = copied[63 - thread];
}

static __global__ void MisplacedSmallCopyKernel(const uint8_t* in, int shared_offset, int offset) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  CopyAsync<4>(shared_memory + shared_offset, in + offset, true);
}

static __global__ void MisplacedCopyKernel(const uint8_t* in, int shared_offset, int offset) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  CopyAsync16(shared_memory + shared_offset, in + offset);
}

namespace {

class PtxInOrder : public EveryFiberOrder {};
INSTANTIATE_TEST_SUITE_P(Orders, PtxInOrder, testing::ValuesIn(cuda_shim::kAllFiberOrders));

// Small random integers, so that every sum is exact.
std::vector<float> Integers(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> out(count);
  for (float& value : out) value = static_cast<float>(static_cast<int>(random() % 33) - 16);
  return out;
}

std::vector<uint16_t> Halves(const std::vector<float>& values, bool bf16) {
  std::vector<uint16_t> out;
  for (const float value : values) {
    out.push_back(bf16 ? __bfloat16_as_ushort(__float2bfloat16_rn(value))
                       : __half_as_ushort(__float2half_rn(value)));
  }
  return out;
}

// a [rows, depth] x b [depth, columns] + d
std::vector<float> Multiplied(const std::vector<float>& a, const std::vector<float>& b,
                              std::vector<float> d) {
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kColumns; ++column) {
      for (int k = 0; k < kDepth; ++k) {
        d[static_cast<size_t>(row * kColumns + column)] +=
            a[static_cast<size_t>(row * kDepth + k)] *
            b[static_cast<size_t>(k * kColumns + column)];
      }
    }
  }
  return d;
}

TEST_P(PtxInOrder, MultiplyAddsTheProductOfTheFragmentsThatTheIsaDescribes) {
  for (uint32_t seed = 0; seed < 5; ++seed) {
    const std::vector<float> a = Integers(kRows * kDepth, 3 * seed);
    const std::vector<float> b = Integers(kDepth * kColumns, 3 * seed + 1);
    const std::vector<float> d = Integers(kRows * kColumns, 3 * seed + 2);
    for (const bool bf16 : {false, true}) {
      std::vector<float> out = d;
      Launch(bf16 ? &GatherKernel<true> : &GatherKernel<false>, {.block = 32},
             Halves(a, bf16).data(), Halves(b, bf16).data(), out.data());
      EXPECT_EQ(out, Multiplied(a, b, d));
    }
  }
}

TEST_P(PtxInOrder, LoadedMatricesAreFragmentsOfMultiply) {
  const std::vector<float> a = Integers(kRows * kDepth, 1);
  const std::vector<float> b = Integers(kDepth * kColumns, 2);
  std::vector<float> b_by_column;
  for (int column = 0; column < kColumns; ++column) {
    for (int k = 0; k < kDepth; ++k) {
      b_by_column.push_back(b[static_cast<size_t>(k * kColumns + column)]);
    }
  }
  const std::vector<float> expected = Multiplied(a, b, std::vector<float>(kRows * kColumns));
  const LaunchOptions options{.block = 32, .shared_bytes = (kRows + kColumns) * kDepth * 2};
  std::vector<float> out(expected.size());
  Launch(LoadKernel, options, Halves(a, false).data(), Halves(b_by_column, false).data(), false,
         out.data());
  EXPECT_EQ(out, expected);
  Launch(LoadKernel, options, Halves(a, false).data(), Halves(b, false).data(), true, out.data());
  EXPECT_EQ(out, expected);
}

template <int kCount, bool kTransposed>
void ExpectLoaded() {
  std::vector<uint16_t> in(256);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint16_t>(i * 257);
  std::vector<uint16_t> out(32 * kCount * 2);
  Launch(LoadMatricesKernel<kCount, kTransposed>, {.block = 32, .shared_bytes = 512}, in.data(),
         out.data());
  for (size_t lane = 0; lane < 32; ++lane) {
    for (size_t matrix = 0; matrix < kCount; ++matrix) {
      for (size_t i = 0; i < 2; ++i) {
        const size_t of_lane = lane / 4;
        const size_t of_pair = lane % 4 * 2 + i;
        const size_t row = kTransposed ? of_pair : of_lane;
        const size_t column = kTransposed ? of_lane : of_pair;
        EXPECT_EQ(out[(lane * kCount + matrix) * 2 + i], in[matrix * 64 + row * 8 + column]);
      }
    }
  }
}

TEST_P(PtxInOrder, LoadMatricesGivesEachLaneTwoNeighboursOfEachMatrix) {
  ExpectLoaded<2, false>();
  ExpectLoaded<4, false>();
  ExpectLoaded<2, true>();
  ExpectLoaded<4, true>();
}

TEST_P(PtxInOrder, CopiesArriveWhenTheirGroupIsWaitedFor) {
  constexpr size_t kWords = 3 * 256;
  auto* const in = static_cast<uint32_t*>(std::aligned_alloc(16, kWords * 4));
  for (uint32_t i = 0; i < kWords; ++i) in[i] = i + 1;
  for (const bool with_wait : {true, false}) {
    std::vector<uint32_t> out(2 * kWords);
    Launch(CopyKernel, {.block = 64, .shared_bytes = kWords * 4}, in, out.data(), with_wait);
    for (size_t i = 0; i < kWords; ++i) {
      const size_t group = i / 256;
      const size_t thread = i % 256 / 4;
      uint32_t copied = in[i];
      if (group == 2) {  // only its first bytes
        const size_t valid = std::min<size_t>(4, thread % 17 - std::min(thread % 17, i % 4 * 4));
        copied = valid == 4 ? copied : copied & ((1u << (8 * valid)) - 1);
      }
      EXPECT_EQ(out[i], with_wait && group == 0 ? copied : 0xffffffffu);
      EXPECT_EQ(out[kWords + i], with_wait ? copied : 0xffffffffu);
    }
  }
  std::free(in);
}

template <class Element>
void ExpectSmallCopies() {
  Element in[64];
  for (uint32_t i = 0; i < 64; ++i) in[i] = i * static_cast<Element>(0x0100000000000001) + 1;
  Element out[128] = {};
  Launch(SmallCopyKernel<Element>, {.block = 64, .shared_bytes = sizeof(in)}, in, out);
  for (int i = 0; i < 64; ++i) {
    EXPECT_NE(out[i], in[i]) << "before the wait";
    const int thread = 63 - i;
    EXPECT_EQ(out[64 + i], thread % 3 != 0 ? in[thread] : 0);
  }
}

TEST_P(PtxInOrder, ASmallCopyArrivesWithTheWaitWholeOrAsZero) {
  ExpectSmallCopies<uint32_t>();
  ExpectSmallCopies<uint64_t>();
}

TEST(PtxDeathTest, CopiesAreAlignedAndGoToSharedMemory) {
  alignas(16) const uint8_t in[64] = {};
  Launch(MisplacedCopyKernel, {.shared_bytes = 64}, in, 48, 16);
  EXPECT_DEATH(Launch(MisplacedCopyKernel, {.shared_bytes = 64}, in, 8, 0), "multiple of 16");
  EXPECT_DEATH(Launch(MisplacedCopyKernel, {.shared_bytes = 64}, in, 0, 8), "multiple of 16");
  EXPECT_DEATH(Launch(MisplacedCopyKernel, {.shared_bytes = 64}, in, 64, 0),
               "not in the block's shared memory");
  Launch(MisplacedSmallCopyKernel, {.shared_bytes = 64}, in, 60, 4);
  EXPECT_DEATH(Launch(MisplacedSmallCopyKernel, {.shared_bytes = 64}, in, 2, 0), "multiple of 4");
  EXPECT_DEATH(Launch(MisplacedSmallCopyKernel, {.shared_bytes = 64}, in, 0, 2), "multiple of 4");
}

}  // namespace
}  // namespace baton
