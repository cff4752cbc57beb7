#include "tests/support/cuda_shim/host_functions.h"

#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace baton {
namespace {

TEST(HostFunctions, DeviceMemoryIsPoisonedAndCounted) {
  size_t free_before = 0;
  size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_before, &total), cudaSuccess);
  uint8_t* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, 1000), cudaSuccess);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 256, 0u);
  std::vector<uint8_t> host(1000);
  ASSERT_EQ(cudaMemcpy(host.data(), data, 1000, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_THAT(host, testing::Each(cuda_shim::kPoison));
  size_t free_now = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_now, &total), cudaSuccess);
  EXPECT_EQ(free_now, free_before - 1000);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  ASSERT_EQ(cudaMemGetInfo(&free_now, &total), cudaSuccess);
  EXPECT_EQ(free_now, free_before);
  void* too_much = nullptr;
  EXPECT_EQ(cudaMalloc(&too_much, total + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

uint8_t ByteAt(const uint8_t* device) {
  uint8_t byte = 0;
  EXPECT_EQ(cudaMemcpy(&byte, device, 1, cudaMemcpyDeviceToHost), cudaSuccess);
  return byte;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(HostFunctionsDeathTest, TheHostCannotTouchDeviceMemory) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  uint8_t* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, 64), cudaSuccess);
  EXPECT_EXIT(*data = 1, testing::KilledBySignal(SIGSEGV), "");
  ASSERT_EQ(cudaMemset(data, 7, 64), cudaSuccess);
  EXPECT_EXIT(std::printf("%d", *data), testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EQ(cudaFree(data), cudaSuccess);
}
#endif

TEST(HostFunctions, ACopyInTheWrongDirectionFails) {
  uint8_t* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, 64), cudaSuccess);
  uint8_t host[64] = {1, 2, 3};
  EXPECT_EQ(cudaMemcpy(host, data, 64, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(data, host, 64, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(data + 1, host, 64, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(host[0], 1);
  EXPECT_EQ(cudaMemcpyAsync(data, host, 64, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(ByteAt(data + 2), 3);
  EXPECT_EQ(cudaMemcpy(data, data + 32, 32, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemset(data, 7, 65), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(data, 7, 64), cudaSuccess);
  EXPECT_EQ(ByteAt(data + 63), 7);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(cudaFree(host), cudaErrorInvalidValue);
}

TEST(HostFunctions, StreamsAndEventsExist) {
  cudaStream_t stream = nullptr;
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&start), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&end), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(start, stream), cudaSuccess);
  int called = 0;
  EXPECT_EQ(cudaLaunchHostFunc(
                stream, [](void* count) { ++*static_cast<int*>(count); }, &called),
            cudaSuccess);
  EXPECT_EQ(called, 1);
  EXPECT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream, end), cudaSuccess);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cudaEventDestroy(start), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(end), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

}  // namespace
}  // namespace baton
