#include "common/backend/cuda/device/cuda_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>
#include <vector>

#include "common/backend/cuda/device/cuda_error.h"

namespace baton {
namespace {

// Counts calls, and waits for those that are to come.
class Calls {
 public:
  DeviceCopies::Done Next() {
    const std::lock_guard lock(mutex_);
    ++expected_;
    return [this] {
      const std::lock_guard inner(mutex_);
      ++came_;
      changed_.notify_all();
    };
  }
  void WaitForAll() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return came_ == expected_; });
  }
  int came() const { return came_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int expected_ = 0;
  int came_ = 0;
};

class CudaCopiesTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 1 << 16;
  CudaCopiesTest()
      : device_(*AllocateDeviceMemory(kBytes)), host_(*copies_.AllocatePinned(kBytes)) {}

  // Copies from memory of either kind to memory of either kind.
  static void CopyNow(const uint8_t* from, uint8_t* to) {
    CheckCuda(cudaMemcpy(to, from, kBytes, cudaMemcpyDefault), "copy");
    CheckCuda(cudaDeviceSynchronize(), "copy");
  }

  const CudaStream operations_ = MakeCudaStream();
  Calls calls_;
  CudaCopies copies_{0, operations_.get()};
  BackendBuffer device_;
  BackendBuffer host_;
};

// Copies ranges as they lie in the blocks of a cache: next to each other, at equal and at unequal
// distances, of equal and unequal lengths.
std::vector<DeviceCopy> RandomRuns(std::mt19937& random, uint8_t* device, uint8_t* host,
                                   size_t bytes) {
  std::vector<DeviceCopy> runs;
  size_t at_device = 0;
  size_t at_host = 0;
  size_t length = 1 + random() % 200;
  while (at_device + 600 < bytes && at_host + 600 < bytes) {
    if (random() % 3 == 0) length = 1 + random() % 200;
    runs.push_back({device + at_device, host + at_host, length});
    at_device += length + (random() % 3 == 0 ? random() % 300 : 0);
    at_host += length + (random() % 3 == 0 ? random() % 300 : 0);
  }
  if (random() % 2 == 0) std::swap(runs.front(), runs.back());
  return runs;
}

TEST_F(CudaCopiesTest, BringEveryRunToItsPlaceAndTouchNothingElse) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    const std::vector<DeviceCopy> runs = RandomRuns(random, device_.data(), host_.data(), kBytes);
    std::vector<uint8_t> sent(kBytes);
    for (uint8_t& byte : sent) byte = static_cast<uint8_t>(random());
    for (const bool to_host : {true, false}) {
      uint8_t* const from = to_host ? device_.data() : host_.data();
      uint8_t* const to = to_host ? host_.data() : device_.data();
      std::vector<uint8_t> expected(kBytes, 0x5A);
      CopyNow(sent.data(), from);
      CopyNow(expected.data(), to);
      for (const DeviceCopy& run : runs) {
        const auto there = static_cast<size_t>(run.device - device_.data());
        const auto here = static_cast<size_t>(run.host - host_.data());
        std::memcpy(expected.data() + (to_host ? here : there),
                    sent.data() + (to_host ? there : here), run.bytes);
      }
      if (to_host) {
        copies_.ToHost(runs, copies_.Mark(), calls_.Next());
      } else {
        copies_.ToDevice(runs, calls_.Next());
      }
      calls_.WaitForAll();
      std::vector<uint8_t> came(kBytes);
      CopyNow(to, came.data());
      ASSERT_EQ(came, expected) << "round " << round;
    }
  }
}

TEST_F(CudaCopiesTest, MarksAscendAndAnOldOneStillServes) {
  const uint64_t first = copies_.Mark();
  EXPECT_GT(first, 0u);
  uint64_t last = first;
  for (int i = 0; i < 300; ++i) {
    const uint64_t mark = copies_.Mark();
    EXPECT_GT(mark, last);
    last = mark;
  }
  const DeviceCopy run = {device_.data(), host_.data(), 16};
  copies_.ToHost({&run, 1}, first, calls_.Next());
  copies_.ToHost({&run, 1}, 0, calls_.Next());
  copies_.ToHost({}, last, calls_.Next());
  calls_.WaitForAll();
}

TEST_F(CudaCopiesTest, CopiesOfEarlierOperationsOvertakeThoseOfLaterOnes) {
  const DeviceCopy run = {device_.data(), host_.data(), 16};
  std::mutex gate;
  std::vector<int> order;
  gate.lock();
  // The thread waits in the first `done`; then as many copies as may be ahead begin, in order.
  copies_.ToHost({&run, 1}, 0, [&gate, call = calls_.Next()] {
    const std::lock_guard lock(gate);
    call();
  });
  std::vector<uint64_t> marks(20);
  for (uint64_t& mark : marks) mark = copies_.Mark();
  for (int i = 19; i >= 0; --i) {
    copies_.ToHost({&run, 1}, marks[static_cast<size_t>(i)], [&order, i, call = calls_.Next()] {
      order.push_back(i);
      call();
    });
  }
  gate.unlock();
  calls_.WaitForAll();
  ASSERT_EQ(order.size(), 20u);
  EXPECT_EQ(order.front(), 19);
  EXPECT_TRUE(std::is_sorted(order.begin() + 5, order.end()));
}

TEST(CudaCopies, EndOnlyWhenEverybodyWasTold) {
  const CudaStream operations = MakeCudaStream();
  auto device = *AllocateDeviceMemory(64);
  auto host = *AllocatePinnedMemory(64);
  Calls calls;
  {
    CudaCopies copies(0, operations.get());
    const DeviceCopy run = {device.data(), host.data(), 64};
    for (int i = 0; i < 100; ++i) copies.ToHost({&run, 1}, 0, calls.Next());
  }
  EXPECT_EQ(calls.came(), 100);
}

}  // namespace
}  // namespace baton
