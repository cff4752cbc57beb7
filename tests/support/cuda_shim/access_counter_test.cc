// Kernels whose accesses are as a device would have them, or cost more by a number that is known.
#include "tests/support/cuda_shim/access_counter.h"

#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "ptx.h"
#include "tests/support/cuda_shim/device_array.h"
#include "tests/support/cuda_shim/every_fiber_order.h"
#include "tests/support/cuda_shim/program_lines.h"

namespace baton {

namespace cuda_shim {
static void PrintTo(const Requests& requests, std::ostream* out) {
  *out << requests.done << " of at least " << requests.fewest;
}
}  // namespace cuda_shim

using cuda_shim::AccessCounts;
using cuda_shim::AccessKind;
using cuda_shim::KernelCounts;
using cuda_shim::MemorySpace;
using cuda_shim::Requests;
using testing::HasSubstr;

// Where thread i accesses an array: element first + (i / per_element) * stride.
struct Places {
  unsigned stride = 1;
  unsigned first = 0;
  unsigned per_element = 1;

  __device__ unsigned Of(unsigned thread) const { return first + thread / per_element * stride; }
};

template <class T>
static __global__ void ReadKernel(const T* in, Places places) {
  [[maybe_unused]] const T value = in[places.Of(threadIdx.x)];
}

template <class T>
static __global__ void WriteKernel(T* out, Places places) {
  const T zero = {};
  out[places.Of(threadIdx.x)] = zero;
}

static __global__ void WriteQuadsKernel(float4* out) {
  const auto x = static_cast<float>(threadIdx.x);
  out[threadIdx.x] = {x, x + 1, x + 2, x + 3};
}

template <class T>
static __global__ void SharedKernel(Places places) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  T* const values = reinterpret_cast<T*>(shared_memory);
  [[maybe_unused]] const T value = values[places.Of(threadIdx.x)];
}

// Rows of 16 bytes, `stride` bytes apart.
template <int kCount>
static __global__ void MatricesKernel(unsigned stride) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  uint32_t matrices[kCount];
  LoadMatrices(matrices, shared_memory + threadIdx.x * stride);
}

static __global__ void CopyKernel(const uint4* from, unsigned valid) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  const unsigned i = threadIdx.x;
  for (unsigned turn = 0; turn < 2; ++turn) {
    CopyAsync16(shared_memory + (turn * 32 + i) * 16, from + turn * 32 + i,
                turn > 0 || i < valid ? 16 : 0);
  }
  CommitCopies();
  WaitForCopies<0>();
}

static __global__ void EvenLanesKernel(const float* in) {
  if (threadIdx.x % 2 == 0) [[maybe_unused]]
    const float value = in[threadIdx.x];
}

// Lane 0 has one turn more than the others, before the lanes meet.
static __global__ void TurnsKernel(const float* in, bool meet) {
  for (unsigned round = 0; round < 2; ++round) {
    const unsigned turns = round == 0 && threadIdx.x == 0 ? 2 : 1;
    for (unsigned turn = 0; turn < turns; ++turn) {
      [[maybe_unused]] const float value = in[(round * 2 + turn) * 32 + threadIdx.x];
    }
    if (meet) __syncwarp();
  }
}

// Each block reads the same words, and writes words of its own.
static __global__ void ReadTwiceKernel(const float* in, float* out) {
  for (int turn = 0; turn < 2; ++turn) {
    out[blockIdx.x * 32 + threadIdx.x] = in[threadIdx.x];
  }
}

static __global__ void OperationsKernel() {
  float sums[4] = {};
  const uint32_t a[4] = {};
  const uint32_t b[2] = {};
  for (int i = 0; i < 3; ++i) MultiplyBf16(sums, a, b);
  __syncthreads();
  [[maybe_unused]] const float power = Exp2Approximate(sums[0]);
}

static __global__ void PrefetchKernel(int* count, const uint8_t* weights) {
  atomicAdd(count, 1);
  if (threadIdx.x == 0) PrefetchToL2(weights, 64);
}

namespace {

class Accesses : public EveryFiberOrder {
 protected:
  // The counts of one launch of the kernel.
  template <class... Parameters, class... Arguments>
  static KernelCounts CountsOf(unsigned blocks, unsigned threads, void (*kernel)(Parameters...),
                               Arguments... arguments) {
    const AccessCounts counts;
    Launch(kernel, {.grid = blocks, .block = threads, .shared_bytes = 8192}, arguments...);
    return counts.kernels().at(0);
  }
  template <class T>
  Requests Read(const Places& places) {
    return CountsOf(1, 32, ReadKernel<T>, reinterpret_cast<const T*>(memory_.data()), places)
        .All(MemorySpace::kDevice, AccessKind::kRead);
  }
  template <class T>
  Requests Write(const Places& places) {
    return CountsOf(1, 32, WriteKernel<T>, reinterpret_cast<T*>(memory_.data()), places)
        .All(MemorySpace::kDevice, AccessKind::kWrite);
  }
  template <class T>
  static Requests Shared(const Places& places) {
    return CountsOf(1, 32, SharedKernel<T>, places).All(MemorySpace::kShared, AccessKind::kRead);
  }
  template <int kCount>
  static Requests Matrices(unsigned stride) {
    return CountsOf(1, 32, MatricesKernel<kCount>, stride)
        .All(MemorySpace::kShared, AccessKind::kRead);
  }
  const float* floats() const { return reinterpret_cast<const float*>(memory_.data()); }

  DeviceArray<uint8_t> memory_{8192};
};
INSTANTIATE_TEST_SUITE_P(Orders, Accesses, testing::ValuesIn(cuda_shim::kAllFiberOrders));

TEST_P(Accesses, OfNeighbouringElementsTouchTheFewestSectors) {
  EXPECT_EQ(Read<uint8_t>({}), (Requests{1, 1}));
  EXPECT_EQ(Read<float>({}), (Requests{4, 4}));
  EXPECT_EQ(Read<uint2>({}), (Requests{8, 8}));
  EXPECT_EQ(Read<uint4>({}), (Requests{16, 16}));
  EXPECT_EQ(Write<uint16_t>({}), (Requests{2, 2}));
  EXPECT_EQ(Write<uint4>({}), (Requests{16, 16}));
}

TEST_P(Accesses, ThatAreApartTouchMoreSectors) {
  EXPECT_EQ(Read<float>({.stride = 2}), (Requests{8, 4}));
  EXPECT_EQ(Read<float>({.stride = 8}), (Requests{32, 4}));
  EXPECT_EQ(Read<uint4>({.stride = 2}), (Requests{32, 16}));
  EXPECT_EQ(Write<float>({.stride = 8}), (Requests{32, 4}));
}

TEST_P(Accesses, ThatBeginWithinASectorTouchOneMore) {
  EXPECT_EQ(Read<float>({.first = 1}), (Requests{5, 4}));
  EXPECT_EQ(Read<float>({.first = 8}), (Requests{4, 4}));
  EXPECT_EQ(Write<uint4>({.first = 1}), (Requests{17, 16}));
}

TEST_P(Accesses, OfOneElementByAllLanesAreOne) {
  EXPECT_EQ(Read<float>({.stride = 0}), (Requests{1, 1}));
  EXPECT_EQ(Read<uint4>({.per_element = 4}), (Requests{4, 4}));
  EXPECT_EQ(Shared<float>({.stride = 0}), (Requests{1, 1}));
  EXPECT_EQ(Shared<uint8_t>({}), (Requests{1, 1}));
}

TEST_P(Accesses, AVectorOfNewElementsIsStoredAtOnce) {
  const KernelCounts counts =
      CountsOf(1, 32, WriteQuadsKernel, reinterpret_cast<float4*>(memory_.data()));
  ASSERT_EQ(counts.instructions.size(), 1U);
  EXPECT_EQ(counts.instructions[0].widest, 16);
  EXPECT_EQ(counts.instructions[0].executions, 1U);
  EXPECT_EQ(counts.instructions[0].requests, (Requests{16, 16}));
}

TEST_P(Accesses, OfSharedMemoryTakeTurnsAtABank) {
  EXPECT_EQ(Shared<float>({}), (Requests{1, 1}));
  EXPECT_EQ(Shared<float>({.first = 5}), (Requests{1, 1}));
  EXPECT_EQ(Shared<float>({.stride = 2}), (Requests{2, 1}));
  EXPECT_EQ(Shared<float>({.stride = 32}), (Requests{32, 1}));
  EXPECT_EQ(Shared<float>({.stride = 33}), (Requests{1, 1}));
  EXPECT_EQ(Shared<uint16_t>({.stride = 4}), (Requests{2, 1}));
}

TEST_P(Accesses, OfVectorsInSharedMemoryHavePhases) {
  EXPECT_EQ(Shared<uint2>({}), (Requests{2, 2}));
  EXPECT_EQ(Shared<uint2>({.stride = 2}), (Requests{4, 2}));
  EXPECT_EQ(Shared<uint4>({}), (Requests{4, 4}));
  EXPECT_EQ(Shared<uint4>({.stride = 2}), (Requests{8, 4}));
  EXPECT_EQ(Shared<uint4>({.stride = 8}), (Requests{32, 4}));
  EXPECT_EQ(Shared<uint4>({.stride = 9}), (Requests{4, 4}));
}

TEST_P(Accesses, OfMatricesHaveEightRowsInAPhase) {
  EXPECT_EQ(Matrices<4>(16), (Requests{4, 4}));
  EXPECT_EQ(Matrices<4>(32), (Requests{8, 4}));
  EXPECT_EQ(Matrices<4>(128), (Requests{32, 4}));
  EXPECT_EQ(Matrices<4>(144), (Requests{4, 4}));
  EXPECT_EQ(Matrices<2>(128), (Requests{16, 2}));
}

TEST_P(Accesses, OfCopiesAreThoseOfBothMemories) {
  const auto* const from = reinterpret_cast<const uint4*>(memory_.data());
  const KernelCounts all = CountsOf(1, 32, CopyKernel, from, 32u);
  EXPECT_EQ(all.All(MemorySpace::kDevice, AccessKind::kRead), (Requests{32, 32}));
  EXPECT_EQ(all.All(MemorySpace::kShared, AccessKind::kWrite), (Requests{8, 8}));
  // Lanes that copy nothing are not a turn behind the others.
  const KernelCounts some = CountsOf(1, 32, CopyKernel, from, 8u);
  EXPECT_EQ(some.All(MemorySpace::kDevice, AccessKind::kRead), (Requests{20, 20}));
  EXPECT_EQ(some.All(MemorySpace::kShared, AccessKind::kWrite), (Requests{8, 8}));
}

TEST_P(Accesses, OfSomeLanesCountForTheirBytes) {
  const KernelCounts counts = CountsOf(1, 32, EvenLanesKernel, floats());
  EXPECT_EQ(counts.All(MemorySpace::kDevice, AccessKind::kRead), (Requests{4, 2}));
}

TEST_P(Accesses, OfLanesThatHaveMetAreOneInstructionAgain) {
  const KernelCounts met = CountsOf(1, 32, TurnsKernel, floats(), true);
  EXPECT_EQ(met.All(MemorySpace::kDevice, AccessKind::kRead), (Requests{9, 9}));
  const KernelCounts apart = CountsOf(1, 32, TurnsKernel, floats(), false);
  EXPECT_GT(apart.All(MemorySpace::kDevice, AccessKind::kRead).excess(), 0U);
}

TEST_P(Accesses, AreCountedForEachWarpAndBlock) {
  const KernelCounts counts = CountsOf(3, 64, ReadKernel<float>, floats(), Places{.stride = 2});
  ASSERT_EQ(counts.instructions.size(), 1U);
  EXPECT_EQ(counts.instructions[0].executions, 6U);
  EXPECT_EQ(counts.instructions[0].requests, (Requests{48, 24}));
}

TEST_P(Accesses, OfBytesThatWereReadBeforeAreRedundant) {
  auto* const out = reinterpret_cast<float*>(memory_.data()) + 32;
  const KernelCounts counts = CountsOf(5, 32, ReadTwiceKernel, floats(), out);
  EXPECT_EQ(counts.read.distinct, 128U);
  EXPECT_EQ(counts.read.block_bytes, 5 * 128U);
  EXPECT_EQ(counts.read.bytes, 2 * 5 * 128U);
  EXPECT_EQ(counts.read.most_blocks, 5U);
  EXPECT_EQ(counts.written.distinct, 5 * 128U);
  EXPECT_EQ(counts.written.block_bytes, 5 * 128U);
  EXPECT_EQ(counts.written.bytes, 2 * 5 * 128U);
  EXPECT_EQ(counts.written.most_blocks, 1U);
}

TEST_P(Accesses, AreNotTheOnlyOperations) {
  const KernelCounts counts = CountsOf(2, 64, OperationsKernel);
  EXPECT_EQ(counts.multiplications, 2 * 2 * 3U);
  EXPECT_EQ(counts.barriers, 2U);
  EXPECT_EQ(counts.exponentials, 2 * 64U);
  EXPECT_EQ(CountsOf(1, 32, MatricesKernel<4>, 16u).matrix_loads, 1U);
}

TEST_P(Accesses, OfAtomicsAndPrefetchesAreLeftOut) {
  const DeviceArray<int> count(std::vector<int>{0});
  const KernelCounts counts = CountsOf(1, 32, PrefetchKernel, count.data(), memory_.data());
  EXPECT_TRUE(counts.instructions.empty());
}

TEST_P(Accesses, AreCountedWhileACounterLives) {
  const std::vector<KernelCounts>* kernels = nullptr;
  {
    const AccessCounts counts;
    kernels = &counts.kernels();
    for (int i = 0; i < 2; ++i) Launch(ReadKernel<float>, {.block = 32}, floats(), Places{});
    EXPECT_EQ(kernels->size(), 2U);
  }
  Launch(ReadKernel<float>, {.block = 32}, floats(), Places{});
  const AccessCounts counts;
  EXPECT_TRUE(counts.kernels().empty());
}

TEST_P(Accesses, TellWhereTheyStand) {
  const KernelCounts counts = CountsOf(1, 32, EvenLanesKernel, floats());
  ASSERT_EQ(counts.instructions.size(), 1U);
  const auto places =
      cuda_shim::PlacesOf({counts.instructions[0].code, cuda_shim::ProgramOffset(counts.kernel)});
  EXPECT_THAT(places[0].lines, HasSubstr("access_counter_test.cc:"));
  EXPECT_THAT(places[1].function, HasSubstr("EvenLanesKernel"));
}

}  // namespace
}  // namespace baton
