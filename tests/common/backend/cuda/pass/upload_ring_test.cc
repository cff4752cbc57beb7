#include "common/backend/cuda/pass/upload_ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "common/backend/cuda/device/cuda_error.h"
#include "test_device.h"

namespace baton {
namespace {

TEST(UploadRing, BringsEachOfManyUploadsOfAllSizes) {
  const CudaStream stream = MakeCudaStream();
  UploadRing ring(stream.get());
  auto device = AllocateDeviceMemory(size_t{1} << 20);
  ASSERT_TRUE(device.ok());
  for (size_t i = 1; i < 60; ++i) {
    const size_t bytes = i * i * i;
    const std::string sent(bytes, static_cast<char>(i));
    std::memcpy(ring.Next(bytes), sent.data(), bytes);
    ring.Send(bytes, device->data());
    std::string received(bytes, '\0');
    CheckCuda(cudaMemcpyAsync(received.data(), device->data(), bytes, cudaMemcpyDeviceToHost,
                              stream.get()),
              "cudaMemcpyAsync");
    CheckCuda(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    ASSERT_EQ(received, sent);
  }
}

TEST(UploadRing, GivesMemoryThatNoUploadOfTheLastFewIsIn) {
  const CudaStream stream = MakeCudaStream();
  UploadRing ring(stream.get());
  auto device = AllocateDeviceMemory(64);
  ASSERT_TRUE(device.ok());
  const uint8_t* last = nullptr;
  for (int i = 0; i < 20; ++i) {
    uint8_t* const memory = ring.Next(64);
    EXPECT_NE(memory, last);
    std::memset(memory, i, 64);
    ring.Send(64, device->data());
    last = memory;
  }
}

TEST(UploadRing, FillsNoMemoryThatACopyStillReads) {
  cuda_shim::SetStreamsWait(true);
  {
    const CudaStream stream = MakeCudaStream();
    UploadRing ring(stream.get());
    auto device = AllocateDeviceMemory(60 * sizeof(int));
    ASSERT_TRUE(device.ok());
    std::vector<int> sent(60);
    for (int i = 0; i < 60; ++i) {
      sent[static_cast<size_t>(i)] = i;
      std::memcpy(ring.Next(sizeof(int)), &i, sizeof(int));
      ring.Send(sizeof(int), device->data() + static_cast<size_t>(i) * sizeof(int));
    }
    CheckCuda(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    std::vector<int> received(60);
    CheckCuda(cudaMemcpy(received.data(), device->data(), 60 * sizeof(int), cudaMemcpyDeviceToHost),
              "cudaMemcpy");
    EXPECT_EQ(received, sent);
  }
  cuda_shim::SetStreamsWait(false);
}

}  // namespace
}  // namespace baton
