#include "common/backend/cuda/device/device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include "common/base/float_types.h"
#include "tests/support/cuda_shim/device_array.h"
#include "tests/support/cuda_shim/every_fiber_order.h"
#include "tests/support/random_values.h"

namespace baton {

static __global__ void WarpKernel(const float* in, float* sums, float* maxima) {
  sums[threadIdx.x] = WarpSum(in[threadIdx.x]);
  maxima[threadIdx.x] = WarpMax(in[threadIdx.x]);
}

// Sums twice, with the same scratch memory.
template <int kThreads>
static __global__ void BlockKernel(const float* in, float* sums) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  float* const scratch = reinterpret_cast<float*>(shared_memory);
  const float sum = BlockSum<kThreads>(in[threadIdx.x], scratch);
  sums[threadIdx.x] = BlockSum<kThreads>(sum, scratch);
}

template <class Element, int kCount>
static __global__ void ConvertThereAndBackKernel(const float* in, Element* narrow, float* wide) {
  const size_t first = threadIdx.x * kCount;
  StoreFloats(narrow + first, LoadFloats<kCount>(in + first));
  StoreFloats(wide + first, LoadFloats<kCount>(narrow + first));
}

namespace {

class DeviceInOrder : public EveryFiberOrder {};
INSTANTIATE_TEST_SUITE_P(Orders, DeviceInOrder, testing::ValuesIn(cuda_shim::kAllFiberOrders));

// The expected sums of a butterfly.
float PairwiseSum(std::vector<float> values) {
  for (size_t step = values.size() / 2; step > 0; step /= 2) {
    for (size_t i = 0; i < step; ++i) values[i] += values[i + step];
  }
  return values[0];
}

TEST_P(DeviceInOrder, WarpReductionsGiveEveryLaneTheSameBits) {
  const std::vector<float> in = NormalValues(64, 1);
  const DeviceArray<float> device_in(in), sums(64), maxima(64);
  Launch(WarpKernel, {.block = 64}, device_in.data(), sums.data(), maxima.data());
  for (size_t warp = 0; warp < 2; ++warp) {
    const std::vector<float> lanes(in.begin() + static_cast<ptrdiff_t>(warp) * 32,
                                   in.begin() + static_cast<ptrdiff_t>(warp + 1) * 32);
    for (size_t lane = 0; lane < 32; ++lane) {
      EXPECT_EQ(sums.Download()[warp * 32 + lane], PairwiseSum(lanes));
      EXPECT_EQ(maxima.Download()[warp * 32 + lane], *std::max_element(lanes.begin(), lanes.end()));
    }
  }
}

template <int kThreads>
void ExpectBlockSum() {
  std::vector<float> in = NormalValues(kThreads, 2);
  const DeviceArray<float> device_in(in), sums(kThreads);
  Launch(BlockKernel<kThreads>, {.block = kThreads, .shared_bytes = kThreads / 32 * 4},
         device_in.data(), sums.data());
  float sum = 0;
  for (size_t warp = 0; warp < kThreads / 32; ++warp) {
    const auto first = in.begin() + static_cast<ptrdiff_t>(warp) * 32;
    sum = warp == 0 ? PairwiseSum({first, first + 32}) : sum + PairwiseSum({first, first + 32});
  }
  float twice = sum * 32;
  for (size_t warp = 1; warp < kThreads / 32; ++warp) twice += sum * 32;
  for (const float got : sums.Download()) EXPECT_EQ(got, twice);
}

TEST_P(DeviceInOrder, ABlocksSumIsThatOfItsWarpsInOrder) {
  ExpectBlockSum<32>();
  ExpectBlockSum<64>();
  ExpectBlockSum<256>();
  ExpectBlockSum<1024>();
}

template <class Element, int kCount, class Bits>
void ExpectConverted(Bits (*narrowed)(float), float (*widened)(Bits)) {
  constexpr size_t kThreads = 32;
  const std::vector<float> in = NormalValues(kThreads * kCount, 3);
  const DeviceArray<float> device_in(in), wide(in.size());
  const DeviceArray<Element> narrow(in.size());
  Launch(ConvertThereAndBackKernel<Element, kCount>, {.block = kThreads}, device_in.data(),
         narrow.data(), wide.data());
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_EQ(std::bit_cast<Bits>(narrow.Download()[i]), narrowed(in[i]));
    EXPECT_EQ(wide.Download()[i], widened(narrowed(in[i])));
  }
}

TEST(LaunchDeathTest, OfAShapeThatNoDeviceHasEndsTheProcessWithItsNumbers) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a GPU is not there for a forked process
  EXPECT_EXIT(Launch(WarpKernel, {.block = 2048}, nullptr, nullptr, nullptr),
              testing::ExitedWithCode(kCudaErrorExitStatus),
              "CUDA: launch of 1 x 1 x 1 blocks of 2048 x 1 x 1 threads and 0 bytes of shared "
              "memory failed: cudaErrorInvalid");
}

TEST(Device, ElementsAreLoadedAndStoredRoundedInGroupsOfAnySize) {
  const auto expect = []<int kCount>(std::integral_constant<int, kCount>) {
    ExpectConverted<float, kCount, float>([](float x) { return x; }, [](float x) { return x; });
    ExpectConverted<__half, kCount, uint16_t>(&F32ToF16, &F16ToF32);
    ExpectConverted<__nv_bfloat16, kCount, uint16_t>(&F32ToBf16, &Bf16ToF32);
  };
  expect(std::integral_constant<int, 1>());
  expect(std::integral_constant<int, 2>());
  expect(std::integral_constant<int, 4>());
  expect(std::integral_constant<int, 8>());
}

}  // namespace
}  // namespace baton
