// Kernels with and without what orders their accesses. In every order of fibers a race is found
// that is there, and none that is not.
#include "tests/support/cuda_shim/race_detector.h"

#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "ptx.h"
#include "tests/support/cuda_shim/device_array.h"
#include "tests/support/cuda_shim/every_fiber_order.h"

namespace baton {

using testing::ElementsAre;

// What a kernel does, or leaves out.
enum class With { kNothing, kSyncWarp, kBarrier };

static __device__ void Order(With with) {
  if (with == With::kSyncWarp) __syncwarp();
  if (with == With::kBarrier) __syncthreads();
}

// Each thread writes a word, and reads its neighbour's.
static __global__ void NeighbourKernel(int* out, unsigned distance, With after_write) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  int* const values = reinterpret_cast<int*>(shared_memory);
  const unsigned i = threadIdx.x;
  values[i] = static_cast<int>(i);
  Order(after_write);
  out[i] = values[(i + distance) % blockDim.x];
}

// Each thread reads its neighbour's word, and writes its own.
static __global__ void OverwriteKernel(int* out, unsigned distance, With after_read) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  int* const values = reinterpret_cast<int*>(shared_memory);
  const unsigned i = threadIdx.x;
  values[i] = static_cast<int>(i);
  __syncthreads();
  out[i] = values[(i + distance) % blockDim.x];
  Order(after_read);
  values[i] = 0;
}

static __global__ void ShuffleOrdersNothingKernel(int* out) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  int* const values = reinterpret_cast<int*>(shared_memory);
  values[threadIdx.x] = 1;
  const int one = __shfl_xor_sync(0xffffffffu, 1, 1);
  out[threadIdx.x] = values[threadIdx.x ^ 1] + one;
}

// Each thread has bytes of its own, of words that it shares with others.
static __global__ void OwnBytesKernel(uint8_t* out) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  const unsigned i = threadIdx.x;
  shared_memory[i] = static_cast<uint8_t>(i);
  out[i] = shared_memory[i];
  shared_memory[i] = 0;
}

static __global__ void SameWordKernel(int* out) {
  if (threadIdx.x % 32 == 5) *out = 1;
}

static __global__ void InPlaceKernel(int* values) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  values[i] = values[i] + 1;
}

static __global__ void BlocksMeetKernel(int* values) { values[threadIdx.x] = 1; }

static __global__ void CountKernel(int* count, bool and_read) {
  atomicAdd(count, 1);
  if (and_read && threadIdx.x == 7) *count = *count + 1;
}

// The last block adds what all have written, if nothing is left out.
struct LastBlock {
  bool first_barrier = true;
  bool first_fence = true;
  bool second_fence = true;
  bool second_barrier = true;
};
static __global__ void LastBlockKernel(int* values, int* counter, int* sum, LastBlock with) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  int* const last = reinterpret_cast<int*>(shared_memory);
  values[blockIdx.x * blockDim.x + threadIdx.x] = 1;
  if (with.first_barrier) __syncthreads();
  if (threadIdx.x == 0) {
    if (with.first_fence) __threadfence();
    *last = atomicAdd(counter, 1) == static_cast<int>(gridDim.x) - 1;
    if (with.second_fence) __threadfence();
  }
  if (with.second_barrier) __syncthreads();
  if (*last == 0 || threadIdx.x != 40) return;
  for (unsigned i = 0; i < gridDim.x * blockDim.x; ++i) *sum += values[i];
}

static __global__ void FillKernel(int* values, int value, bool wait) {
  if (wait) WaitForPreviousKernel();
  values[threadIdx.x] = value;
  if (!wait) WaitForPreviousKernel();
}
static __global__ void CopyKernel(const int* from, int* to, bool wait) {
  int value = 0;
  if (wait) WaitForPreviousKernel();
  value = from[threadIdx.x];
  if (!wait) WaitForPreviousKernel();
  to[threadIdx.x] = value;
}

static __global__ void AsyncCopyKernel(const int* from, int* out, With after_wait) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  CopyAsync16(shared_memory + threadIdx.x * 16, from + threadIdx.x * 4);
  CommitCopies();
  WaitForCopies<0>();
  Order(after_wait);
  out[threadIdx.x] = reinterpret_cast<int*>(shared_memory)[(threadIdx.x ^ 1) * 4];
}

static __global__ void MatrixKernel(uint32_t* out, With after_write) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  const unsigned i = threadIdx.x;
  for (unsigned word = i; word < 128; word += 32) {
    reinterpret_cast<uint32_t*>(shared_memory)[word] = word;
  }
  Order(after_write);
  uint32_t tiles[4];
  LoadMatrices(tiles, shared_memory + i * 16);
  out[i] = tiles[0];
}

namespace {

class Races : public EveryFiberOrder {
 protected:
  static constexpr unsigned kThreads = 64;
  static constexpr size_t kSharedBytes = kThreads * 16;

  template <class... Parameters, class... Arguments>
  void Run(void (*kernel)(Parameters...), unsigned blocks, Arguments... arguments) {
    Launch(kernel, {.grid = blocks, .block = kThreads, .shared_bytes = kSharedBytes}, arguments...);
  }
  template <class... Parameters, class... Arguments>
  void RunWarp(void (*kernel)(Parameters...), Arguments... arguments) {
    Launch(kernel, {.block = 32, .shared_bytes = kSharedBytes}, arguments...);
  }

  DeviceArray<int> out_{size_t{4} * kThreads};
};
using RacesDeathTest = Races;
INSTANTIATE_TEST_SUITE_P(Orders, Races, testing::ValuesIn(cuda_shim::kAllFiberOrders));
INSTANTIATE_TEST_SUITE_P(Orders, RacesDeathTest, testing::ValuesIn(cuda_shim::kAllFiberOrders));

TEST_P(Races, WhatIsOrderedIsNoRace) {
  Run(NeighbourKernel, 1, out_.data(), 1u, With::kBarrier);
  Run(NeighbourKernel, 1, out_.data(), 0u, With::kNothing);
  RunWarp(NeighbourKernel, out_.data(), 1u, With::kSyncWarp);
  Run(OverwriteKernel, 1, out_.data(), 33u, With::kBarrier);
  RunWarp(OverwriteKernel, out_.data(), 1u, With::kSyncWarp);
  Run(InPlaceKernel, 4, out_.data());
  const DeviceArray<uint8_t> bytes(kThreads);
  Run(OwnBytesKernel, 1, bytes.data());
  const DeviceArray<uint32_t> words(32);
  RunWarp(MatrixKernel, words.data(), With::kSyncWarp);
  const DeviceArray<int> from(std::vector<int>(size_t{4} * kThreads, 3));
  Run(AsyncCopyKernel, 1, from.data(), out_.data(), With::kBarrier);
}

TEST_P(Races, AtomicsDoNotRaceWithOneAnother) {
  const DeviceArray<int> count(std::vector<int>{0});
  Run(CountKernel, 4, count.data(), false);
  EXPECT_THAT(count.Download(), ElementsAre(4 * static_cast<int>(kThreads)));
}

TEST_P(Races, TheLastBlockSeesTheOthers) {
  const DeviceArray<int> counter(std::vector<int>{0});
  const DeviceArray<int> sum(std::vector<int>{0});
  Run(LastBlockKernel, 4, out_.data(), counter.data(), sum.data(), LastBlock{});
  EXPECT_THAT(sum.Download(), ElementsAre(4 * static_cast<int>(kThreads)));
}

TEST_P(Races, AThreadThatHasWaitedSeesTheKernelsBefore) {
  const LaunchOptions early = {.block = kThreads, .may_start_early = true};
  const DeviceArray<int> constant(std::vector<int>(kThreads, 1));
  Launch(FillKernel, early, out_.data(), 1, true);
  Launch(CopyKernel, early, out_.data(), out_.data() + kThreads, true);
  Launch(CopyKernel, early, constant.data(), out_.data(), false);
}

TEST_P(RacesDeathTest, AReadOfWhatAnotherThreadWrites) {
  EXPECT_DEATH(Run(NeighbourKernel, 1, out_.data(), 1u, With::kNothing), "race: .* shared memory");
  EXPECT_DEATH(Run(NeighbourKernel, 1, out_.data(), 33u, With::kSyncWarp),
               "race: .* shared memory");
  EXPECT_DEATH(RunWarp(NeighbourKernel, out_.data(), 1u, With::kNothing), "race: .* shared memory");
  EXPECT_DEATH(RunWarp(ShuffleOrdersNothingKernel, out_.data()), "race: .* shared memory");
}

TEST_P(RacesDeathTest, AWriteOfWhatAnotherThreadReads) {
  EXPECT_DEATH(Run(OverwriteKernel, 1, out_.data(), 1u, With::kNothing), "race: .* shared memory");
  EXPECT_DEATH(Run(OverwriteKernel, 1, out_.data(), 33u, With::kSyncWarp),
               "race: .* shared memory");
  EXPECT_DEATH(RunWarp(OverwriteKernel, out_.data(), 1u, With::kNothing), "race: .* shared memory");
}

TEST_P(RacesDeathTest, TwoThreadsThatWriteOneWord) {
  EXPECT_DEATH(Run(SameWordKernel, 1, out_.data()), "race: .* writes device memory");
  EXPECT_DEATH(Run(BlocksMeetKernel, 2, out_.data()),
               "race: .* writes device memory that thread .* of the launch's block 0 wrote");
}

TEST_P(RacesDeathTest, APlainAccessBesideAtomics) {
  const DeviceArray<int> count(std::vector<int>{0});
  EXPECT_DEATH(Run(CountKernel, 1, count.data(), true), "race: .* device memory");
}

TEST_P(RacesDeathTest, ALastBlockThatLacksAnyPartOfIts) {
  const DeviceArray<int> counter(std::vector<int>{0});
  const DeviceArray<int> sum(std::vector<int>{0});
  for (const LastBlock& with :
       {LastBlock{.first_barrier = false}, LastBlock{.first_fence = false},
        LastBlock{.second_fence = false}, LastBlock{.second_barrier = false}}) {
    EXPECT_DEATH(Run(LastBlockKernel, 4, out_.data(), counter.data(), sum.data(), with), "race: ");
  }
}

TEST_P(RacesDeathTest, AnEarlyStartThatDoesNotWaitInTime) {
  const LaunchOptions early = {.block = kThreads, .may_start_early = true};
  EXPECT_DEATH(Launch(FillKernel, early, out_.data(), 1, false),
               "writes device memory, and has not waited for the kernel before");
  Launch(FillKernel, early, out_.data(), 1, true);
  EXPECT_DEATH(Launch(CopyKernel, early, out_.data(), out_.data() + kThreads, false),
               "reads device memory, and has not waited for the kernel before");
}

TEST_P(RacesDeathTest, WhatACopyOrAMatrixLoadTouches) {
  const DeviceArray<int> from(std::vector<int>(size_t{4} * kThreads, 3));
  EXPECT_DEATH(Run(AsyncCopyKernel, 1, from.data(), out_.data(), With::kNothing),
               "race: .* shared memory");
  const DeviceArray<uint32_t> words(32);
  EXPECT_DEATH(RunWarp(MatrixKernel, words.data(), With::kNothing), "race: .* shared memory");
}

}  // namespace
}  // namespace baton
