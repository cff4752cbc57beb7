// Tests of the functions in device_functions.h that a warp calls together.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/support/cuda_shim/every_fiber_order.h"

namespace baton {

template <class T>
static __global__ void ShuffleKernel(int parameter, int width, T* by_index, T* by_xor, T* down,
                                     T* up) {
  const unsigned thread = threadIdx.x;
  const T value = static_cast<T>(thread) * static_cast<T>(1000003) + static_cast<T>(1);
  by_index[thread] = __shfl_sync(0xffffffffu, value, parameter, width);
  by_xor[thread] = __shfl_xor_sync(0xffffffffu, value, parameter, width);
  down[thread] = __shfl_down_sync(0xffffffffu, value, static_cast<unsigned>(parameter), width);
  up[thread] = __shfl_up_sync(0xffffffffu, value, static_cast<unsigned>(parameter), width);
}

static __global__ void VoteKernel(uint64_t bits, unsigned* ballots, int* any, int* all) {
  const unsigned thread = threadIdx.x;
  const int vote = static_cast<int>(bits >> thread & 1);
  ballots[thread] = __ballot_sync(0xffffffffu, vote * 5);
  any[thread] = __any_sync(0xffffffffu, vote);
  all[thread] = __all_sync(0xffffffffu, vote);
}

// Lanes write in turn, separated only by warp barriers.
static __global__ void TurnsKernel(int* order) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  int* const turn = reinterpret_cast<int*>(shared_memory);
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (lane == 0) *turn = 0;
  __syncwarp();
  for (int i = 31; i >= 0; --i) {
    if (lane == i) order[lane] = (*turn)++;
    __syncwarp();
  }
}

namespace {

class WarpFunctionsInOrder : public EveryFiberOrder {};
INSTANTIATE_TEST_SUITE_P(Orders, WarpFunctionsInOrder,
                         testing::ValuesIn(cuda_shim::kAllFiberOrders));

template <class T>
void ExpectShuffles(int parameter, int width) {
  constexpr int kThreads = 96;
  std::vector<T> by_index(kThreads), by_xor(kThreads), down(kThreads), up(kThreads);
  Launch(ShuffleKernel<T>, {.block = kThreads}, parameter, width, by_index.data(), by_xor.data(),
         down.data(), up.data());
  for (int thread = 0; thread < kThreads; ++thread) {
    const auto value = [](int of) { return static_cast<T>(of) * static_cast<T>(1000003) + T{1}; };
    const int segment = thread / width * width;
    const int end = segment + width;
    const size_t i = static_cast<size_t>(thread);
    ASSERT_EQ(by_index[i], value(segment + parameter % width));
    if (parameter < width) {
      ASSERT_EQ(by_xor[i], value(thread ^ parameter));
    }
    ASSERT_EQ(down[i], value(thread + parameter < end ? thread + parameter : thread));
    ASSERT_EQ(up[i], value(thread - parameter >= segment ? thread - parameter : thread));
  }
}

TEST_P(WarpFunctionsInOrder, ShufflesTakeTheValueOfTheLaneTheyName) {
  for (const int width : {32, 16, 8, 2}) {
    for (const int parameter : {0, 1, 2, 3, 4, 8, 15, 16, 31}) {
      ExpectShuffles<int>(parameter, width);
      ExpectShuffles<unsigned>(parameter, width);
      ExpectShuffles<float>(parameter, width);
      ExpectShuffles<double>(parameter, width);
      ExpectShuffles<long long>(parameter, width);
      ExpectShuffles<uint64_t>(parameter, width);
    }
  }
}

TEST_P(WarpFunctionsInOrder, VotesCountEachLaneOfTheWarp) {
  for (const uint64_t bits :
       {0ull, 1ull, 0x8000000000000001ull, 0xffffffff00000000ull, 0x123456789abcdefull, ~0ull}) {
    std::vector<unsigned> ballots(64);
    std::vector<int> any(64), all(64);
    Launch(VoteKernel, {.block = 64}, bits, ballots.data(), any.data(), all.data());
    for (size_t i = 0; i < 64; ++i) {
      const unsigned expected = static_cast<unsigned>(i < 32 ? bits : bits >> 32);
      EXPECT_EQ(ballots[i], expected);
      EXPECT_EQ(any[i], expected != 0);
      EXPECT_EQ(all[i], expected == 0xffffffffu);
    }
  }
}

TEST_P(WarpFunctionsInOrder, AWarpsBarrierOrdersItsLanes) {
  std::vector<int> order(32);
  Launch(TurnsKernel, {.block = 32, .shared_bytes = 4}, order.data());
  for (int i = 0; i < 32; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], 31 - i);
}

TEST(DeviceFunctions, DoWhatTheirNamesSay) {
  EXPECT_EQ(__byte_perm(0x33221100u, 0x77665544u, 0x7410u), 0x77441100u);
  EXPECT_EQ(__dp4a(0x01ff0280, 0x02030405, 10), 10 + 1 * 2 - 1 * 3 + 2 * 4 - 128 * 5);
  EXPECT_EQ(__ffs(0), 0);
  EXPECT_EQ(__ffs(8), 4);
  EXPECT_EQ(__clz(1), 31);
  EXPECT_EQ(__popcll(~0ull), 64);
  EXPECT_EQ(__umulhi(0x80000000u, 6u), 3u);
  EXPECT_EQ(__umul64hi(1ull << 63, 6), 3u);
  EXPECT_EQ(__float2int_rn(2.5f), 2);
  EXPECT_EQ(__float2int_rn(3.5f), 4);
}

}  // namespace
}  // namespace baton
