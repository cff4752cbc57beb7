#include "tests/support/cuda_shim/fibers.h"

#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "ptx.h"
#include "tests/support/cuda_shim/every_fiber_order.h"

namespace baton {

using cuda_shim::FiberOrder;
using testing::Each;
using testing::ElementsAre;

// --- Kernels, right and wrong.

static __global__ void ReverseKernel(const int* in, int* out, bool with_barrier) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  int* const values = reinterpret_cast<int*>(shared_memory);
  const unsigned i = threadIdx.x;
  const size_t first = size_t{blockIdx.x} * blockDim.x;
  values[i] = in[first + i];
  if (with_barrier) __syncthreads();
  out[first + i] = values[blockDim.x - 1 - i];
}

// Each round every thread publishes a number and takes its neighbour's.
static __global__ void RotateKernel(int rounds, int* out, bool with_second_barrier) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  int* const values = reinterpret_cast<int*>(shared_memory);
  const unsigned i = threadIdx.x;
  int value = static_cast<int>(i);
  for (int round = 0; round < rounds; ++round) {
    values[i] = value;
    __syncthreads();
    value = values[(i + 1) % blockDim.x];
    if (with_second_barrier) __syncthreads();
  }
  out[i] = value;
}

static __global__ void IndexKernel(int* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] += 1;
}

static __global__ void TicketKernel(int* counter, int* tickets) {
  if (threadIdx.x == 0) tickets[blockIdx.x] = atomicAdd(counter, 1);
}

static __global__ void FrameKernel(const void** frames, bool with_barrier) {
  int local = 0;
  const void* volatile frame = &local;
  frames[threadIdx.x] = frame;
  if (with_barrier) __syncthreads();
}

static __global__ void AtomicKernel(int* sum, unsigned* largest, unsigned long long* bits,
                                    int* chain) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  atomicAdd(sum, i);
  __syncthreads();
  atomicMax(largest, static_cast<unsigned>(i * 7 % 100));
  atomicOr(bits, 1ull << (i % 64));
  int seen = *chain;
  while (true) {
    const int before = atomicCAS(chain, seen, seen + 1);
    if (before == seen) break;
    seen = before;
  }
}

static __global__ void SharedKernel(size_t bytes, int* poisoned) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  int count = 0;
  for (size_t i = 0; i < bytes; ++i) count += shared_memory[i] == cuda_shim::kPoison;
  poisoned[blockIdx.x] = count;
  for (size_t i = 0; i < bytes; ++i) shared_memory[i] = 1;
}

static __global__ void OverrunKernel(size_t at) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  shared_memory[at] = 1;
}

struct Counted {
  int values[3];
};
static __global__ void ArgumentKernel(Counted counted, int* out) {
  for (int& value : counted.values) value += 1;
  __syncthreads();
  out[threadIdx.x] = counted.values[0] + counted.values[1] + counted.values[2];
}

static __global__ void EarlyReturnKernel() {
  if (threadIdx.x == 3) return;
  __syncthreads();
}

static __global__ void TwoBarriersKernel() {
  if (threadIdx.x < 16) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

static __global__ void MissingLaneKernel(int* out) {
  if (threadIdx.x != 5) out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1, 1);
}

static __global__ void DivergedLanesKernel() {
  if (threadIdx.x == 0) {
    __syncwarp();
  } else {
    __shfl_xor_sync(0xffffffffu, 1, 1);
  }
}

static __global__ void WaitKernel(int waiting_threads) {
  if (static_cast<int>(threadIdx.x) < waiting_threads) WaitForPreviousKernel();
}

static __global__ void DeepKernel(int* out) {
  volatile uint8_t large[64 * 1024];
  for (size_t i = 0; i < sizeof(large); i += 64) large[i] = static_cast<uint8_t>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = large[64 * 100];
}

namespace {

std::vector<int> Reversed(int blocks, int threads, bool with_barrier) {
  std::vector<int> in(static_cast<size_t>(blocks * threads));
  std::iota(in.begin(), in.end(), 1);
  std::vector<int> out(in.size());
  Launch(ReverseKernel,
         {.grid = static_cast<unsigned>(blocks),
          .block = static_cast<unsigned>(threads),
          .shared_bytes = static_cast<size_t>(threads) * sizeof(int)},
         in.data(), out.data(), with_barrier);
  return out;
}

std::vector<int> Rotated(int threads, int rounds, bool with_second_barrier) {
  std::vector<int> out(static_cast<size_t>(threads));
  Launch(RotateKernel,
         {.block = static_cast<unsigned>(threads),
          .shared_bytes = static_cast<size_t>(threads) * sizeof(int)},
         rounds, out.data(), with_second_barrier);
  return out;
}

class FibersInOrder : public EveryFiberOrder {};
INSTANTIATE_TEST_SUITE_P(Orders, FibersInOrder, testing::ValuesIn(cuda_shim::kAllFiberOrders));

TEST_P(FibersInOrder, ABarrierShowsEveryThreadWhatTheOthersWrote) {
  for (const int threads : {1, 31, 64, 100, 1024}) {
    const std::vector<int> out = Reversed(3, threads, true);
    for (int block = 0; block < 3; ++block) {
      for (int i = 0; i < threads; ++i) {
        ASSERT_EQ(out[static_cast<size_t>(block * threads + i)], (block + 1) * threads - i);
      }
    }
  }
}

TEST_P(FibersInOrder, ManyBarriersKeepTheThreadsTogether) {
  const std::vector<int> out = Rotated(96, 200, true);
  for (int i = 0; i < 96; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], (i + 200) % 96);
}

TEST_P(FibersInOrder, EachThreadOfEachBlockRunsOnce) {
  std::vector<int> out(2 * 3 * 4 * 5 * 6 * 7);
  Launch(IndexKernel, {.grid = {2, 3, 4}, .block = {5, 6, 7}}, out.data());
  EXPECT_THAT(out, Each(1));
}

TEST_P(FibersInOrder, AtomicsLoseNothing) {
  int sum = 0;
  unsigned largest = 0;
  unsigned long long bits = 0;
  int chain = 0;
  Launch(AtomicKernel, {.grid = 5, .block = 96}, &sum, &largest, &bits, &chain);
  EXPECT_EQ(sum, 480 * 479 / 2);
  EXPECT_EQ(largest, 99u);
  EXPECT_EQ(bits, ~0ull);
  EXPECT_EQ(chain, 480);
}

TEST_P(FibersInOrder, ABlockFindsItsSharedMemoryPoisoned) {
  std::vector<int> poisoned(4);
  Launch(SharedKernel, {.grid = 4, .shared_bytes = 1000}, size_t{1000}, poisoned.data());
  EXPECT_THAT(poisoned, Each(1000));
  std::vector<int> most(2);
  Launch(SharedKernel, {.grid = 2, .shared_bytes = cuda_shim::kSharedBytesMost},
         cuda_shim::kSharedBytesMost, most.data());
  EXPECT_THAT(most, Each(static_cast<int>(cuda_shim::kSharedBytesMost)));
}

TEST_P(FibersInOrder, EachThreadHasArgumentsOfItsOwn) {
  Counted counted{{1, 2, 3}};
  std::vector<int> out(64);
  Launch(ArgumentKernel, {.block = 64}, counted, out.data());
  EXPECT_THAT(out, Each(9));
  EXPECT_THAT(counted.values, ElementsAre(1, 2, 3));
}

TEST_P(FibersInOrder, StacksAreDeepEnough) {
  std::vector<int> out(64);
  Launch(DeepKernel, {.block = 64}, out.data());
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], i);
}

TEST(Fibers, SomeOrderShowsAMissingBarrier) {
  int caught = 0;
  for (const FiberOrder order : cuda_shim::kAllFiberOrders) {
    cuda_shim::SetFiberOrder(order);
    caught += Reversed(1, 64, false) != Reversed(1, 64, true);
  }
  EXPECT_GT(caught, 0);
  cuda_shim::SetFiberOrder(FiberOrder::kForward);
}

TEST(Fibers, SomeOrderShowsThatAValueIsOverwrittenBeforeItIsRead) {
  int caught = 0;
  for (const FiberOrder order : cuda_shim::kAllFiberOrders) {
    cuda_shim::SetFiberOrder(order);
    caught += Rotated(64, 2, false) != Rotated(64, 2, true);
  }
  EXPECT_GT(caught, 0);
  cuda_shim::SetFiberOrder(FiberOrder::kForward);
}

TEST(Fibers, BlocksRunInTheOrdersOrder) {
  const auto tickets = [](FiberOrder order) {
    cuda_shim::SetFiberOrder(order, 7);
    std::vector<int> out(16);
    int counter = 0;
    Launch(TicketKernel, {.grid = 16, .block = 32}, &counter, out.data());
    cuda_shim::SetFiberOrder(FiberOrder::kForward);
    return out;
  };
  std::vector<int> forward(16);
  std::iota(forward.begin(), forward.end(), 0);
  EXPECT_EQ(tickets(FiberOrder::kForward), forward);
  EXPECT_EQ(tickets(FiberOrder::kReverse), std::vector<int>(forward.rbegin(), forward.rend()));
  EXPECT_NE(tickets(FiberOrder::kSeeded), forward);
  EXPECT_EQ(tickets(FiberOrder::kSeeded), tickets(FiberOrder::kSeeded));
  EXPECT_THAT(tickets(FiberOrder::kSeeded), testing::UnorderedElementsAreArray(forward));
}

TEST(Fibers, ThreadsThatWaitForNothingShareOneFiber) {
  std::vector<const void*> frames(256);
  Launch(FrameKernel, {.block = 256}, frames.data(), false);
  EXPECT_THAT(frames, Each(frames[0]));
  Launch(FrameKernel, {.block = 256}, frames.data(), true);
  EXPECT_THAT(frames, testing::Contains(testing::Ne(frames[0])));
}

using FibersDeathTest = testing::Test;

TEST(FibersDeathTest, AWriteBeyondTheSharedMemoryIsSeen) {
  EXPECT_DEATH(Launch(OverrunKernel, {.shared_bytes = 100}, size_t{100}),
               "byte 100 of its 100 bytes of shared memory|use-after-poison");
  EXPECT_DEATH(Launch(OverrunKernel, {.shared_bytes = 0}, size_t{3}),
               "byte 3 of its 0 bytes of shared memory|use-after-poison");
}

TEST(FibersDeathTest, AThreadThatNeverReachesTheBarrierIsReported) {
  EXPECT_DEATH(Launch(EarlyReturnKernel, {.grid = 2, .block = 64}),
               "block .0,0,0. is stuck: 63 threads wait at the barrier of .*fibers_test.cc:[0-9]+, "
               "0 for lanes of their warp, 1 have ended");
}

TEST(FibersDeathTest, ThreadsAtDifferentBarriersAreReported) {
  EXPECT_DEATH(Launch(TwoBarriersKernel, {.block = 32}), "threads diverge: one is at the barrier");
}

TEST(FibersDeathTest, AMissingLaneIsReported) {
  std::vector<int> out(32);
  EXPECT_DEATH(Launch(MissingLaneKernel, {.block = 32}, out.data()),
               "warp 0: 31 lanes wait at __shfl_xor_sync");
}

TEST(FibersDeathTest, LanesAtDifferentCollectivesAreReported) {
  EXPECT_DEATH(Launch(DivergedLanesKernel, {.block = 32}), "lanes diverge");
}

TEST(FibersDeathTest, APartOfAWarpHasNoCollectives) {
  std::vector<int> out(32);
  EXPECT_DEATH(Launch(MissingLaneKernel, {.block = 31}, out.data()), "32 lanes with a full mask");
}

TEST(FibersDeathTest, AnEarlyStartNeedsAWaitOfEveryThread) {
  Launch(WaitKernel, {.block = 40}, 0);
  Launch(WaitKernel, {.block = 40, .may_start_early = true}, 40);
  EXPECT_DEATH(Launch(WaitKernel, {.block = 40, .may_start_early = true}, 39),
               "thread 39 ended without WaitForPreviousKernel");
}

TEST(FibersDeathTest, WhatTheDeviceCannotDoIsRefused) {
  EXPECT_DEATH(Launch(EarlyReturnKernel, {.block = 1025}), "cudaErrorInvalidConfiguration");
  EXPECT_DEATH(Launch(EarlyReturnKernel, {.grid = 0u}), "cudaErrorInvalidConfiguration");
  EXPECT_DEATH(Launch(EarlyReturnKernel, {.grid = {1, 65536}}), "cudaErrorInvalidConfiguration");
  EXPECT_DEATH(Launch(EarlyReturnKernel, {.shared_bytes = cuda_shim::kSharedBytesMost + 1}),
               "cudaErrorInvalidValue");
}

}  // namespace
}  // namespace baton
