#include "tests/support/cuda_shim/streams.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "common/backend/cuda/device/launch.h"
#include "tests/support/cuda_shim/device_array.h"

namespace baton {

static __global__ void AddKernel(const int* in, int more, int* out) { *out = *in + more; }

namespace {

class Streams : public testing::TestWithParam<bool> {
 protected:
  Streams() {
    cuda_shim::SetStreamsWait(GetParam());
    EXPECT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
  }
  ~Streams() override {
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    cuda_shim::SetStreamsWait(false);
  }

  // Enqueues *out = 1 + 2 on the stream; the 1 comes from `one_`.
  void AddTwo(int* out) { Launch(AddKernel, {.stream = stream_}, one_.data(), 2, out); }
  cudaError_t Copy(int* to, const int* from, cudaMemcpyKind kind) {
    return cudaMemcpyAsync(to, from, sizeof(int), kind, stream_);
  }

  cudaStream_t stream_ = nullptr;
  const DeviceArray<int> one_{std::vector<int>{1}};
  const DeviceArray<int> out_{1};
};

INSTANTIATE_TEST_SUITE_P(Waiting, Streams, testing::Bool());

TEST_P(Streams, DoWhatTheyAreAskedForInOrderAtTheLatestWhenSomebodyWaits) {
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  int host = 5;
  int result = 0;
  EXPECT_EQ(Copy(one_.data(), &host, cudaMemcpyHostToDevice), cudaSuccess);
  AddTwo(out_.data());
  EXPECT_EQ(Copy(&result, out_.data(), cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  int behind = 0;
  EXPECT_EQ(Copy(&behind, out_.data(), cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(result, GetParam() ? 0 : 7);
  host = 6;  // too early for a stream that waits
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(result, GetParam() ? 8 : 7);
  EXPECT_EQ(behind, GetParam() ? 0 : 7);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(behind, result);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST_P(Streams, WaitForEventsOfOthers) {
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaStreamCreate(&other), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  AddTwo(out_.data());
  EXPECT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(other, event), cudaSuccess);
  int result = 0;
  EXPECT_EQ(cudaMemcpyAsync(&result, out_.data(), sizeof(int), cudaMemcpyDeviceToHost, other),
            cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(other), cudaSuccess);
  EXPECT_EQ(result, 3);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
}

// A graph sees memory as it is at the launch, and arguments as they were at the capture.
TEST_P(Streams, ReplayWhatWasCapturedOnWhatMemoryHoldsByThen) {
  int more = 10;
  const int captured_before = cuda_shim::GraphsCaptured();
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  Launch(AddKernel, {.stream = stream_}, one_.data(), more, out_.data());
  more = 20;
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 8), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  EXPECT_EQ(cuda_shim::GraphsCaptured(), captured_before + 1);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  for (int value = 1; value < 4; ++value) {
    EXPECT_EQ(Copy(one_.data(), &value, cudaMemcpyHostToDevice), cudaSuccess);
    ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
    int result = 0;
    EXPECT_EQ(Copy(&result, out_.data(), cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(result, value + 10);
  }
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
}

}  // namespace
}  // namespace baton
