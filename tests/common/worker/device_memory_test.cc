#include "common/worker/device_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace baton {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uint64_t kMib = uint64_t{1} << 20;
constexpr uint64_t kGib = uint64_t{1} << 30;

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

TEST(DeviceMemory, AUtilizationIsAPartOfTheWhole) {
  for (const double utilization : {1e-6, 0.4, 1.0}) {
    EXPECT_TRUE(CheckMemoryOptions({.gpu_utilization = utilization}).ok()) << utilization;
  }
  for (const double utilization : {0.0, -0.5, 1.01, 90.0, std::nan("")}) {
    const absl::Status status = CheckMemoryOptions({.gpu_utilization = utilization});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << utilization;
    EXPECT_THAT(MessageOf(status), HasSubstr("--gpu-memory-utilization"));
  }
}

// On any machine, taken memory and cache together stay within the share and within free memory. One
// more block would not, unless the cache has the most blocks that are allowed.
TEST(DeviceMemory, TheCacheGetsAllThatTheShareLeavesAndNoMore) {
  std::mt19937_64 random(1);
  const auto below = [&](uint64_t n) { return random() % (n + 1); };
  int given = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    DeviceMemoryUse memory;
    memory.total = kMib + below(200 * kGib);
    memory.taken = below(memory.total / (1 + below(8)));
    memory.free = below(memory.total - memory.taken);
    const MemoryOptions share = {.gpu_utilization = static_cast<double>(1 + below(99)) / 100};
    const uint64_t block_bytes = 1024 * (1 + below(16 << 10));
    const auto blocks = DeviceKvBlocks(share, block_bytes, memory);
    const double budget = share.gpu_utilization * static_cast<double>(memory.total);
    const auto with = [&](int64_t count) {
      return static_cast<double>(static_cast<uint64_t>(count) * block_bytes + memory.taken);
    };
    const auto free_after = [&](int64_t count) {
      return static_cast<double>(memory.free) -
             static_cast<double>(static_cast<uint64_t>(count) * block_bytes);
    };
    const double kept_free = static_cast<double>(memory.free) / 64;
    if (!blocks.ok()) {
      EXPECT_EQ(blocks.status().code(), absl::StatusCode::kResourceExhausted);
      EXPECT_TRUE(with(2) > budget || free_after(2) < kept_free);
      continue;
    }
    ++given;
    ASSERT_GE(*blocks, 2);
    ASSERT_LE(with(*blocks), budget);
    ASSERT_GE(free_after(*blocks), kept_free - 1);
    if (*blocks < 1 << 24) {
      ASSERT_TRUE(with(*blocks + 1) > budget || free_after(*blocks + 1) < kept_free);
    }
  }
  EXPECT_GT(given, 5000);
}

// Weights that fit before they are loaded leave room for a cache.
TEST(DeviceMemory, WeightsThatFitLeaveSomethingOfTheShare) {
  std::mt19937_64 random(2);
  const auto below = [&](uint64_t n) { return random() % (n + 1); };
  int fitting = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    DeviceMemoryUse memory;
    memory.total = kGib + below(200 * kGib);
    memory.taken = below(64 * kMib);
    memory.free = below(memory.total - memory.taken);
    MemoryOptions share = {.gpu_utilization = static_cast<double>(1 + below(99)) / 100};
    if (trial % 3 == 0) share.num_kv_blocks = 10;
    const uint64_t weights = below(memory.total);
    if (!CheckWeightsFit(weights, share, memory).ok()) continue;
    ++fitting;
    ASSERT_LT(weights, memory.free);
    if (share.num_kv_blocks > 0) continue;
    const double budget = share.gpu_utilization * static_cast<double>(memory.total);
    ASSERT_LE(budget, static_cast<double>(memory.free + memory.taken) + 1);
    ASSERT_LT(static_cast<double>(weights + memory.taken), budget);
  }
  EXPECT_GT(fitting, 500);
}

TEST(DeviceMemory, TwoProcessesEachHaveTheirShare) {
  const DeviceMemoryUse first = {.total = 100 * kGib, .free = 79 * kGib, .taken = 20 * kGib};
  // The other process has taken its share meanwhile.
  const DeviceMemoryUse second = {.total = 100 * kGib, .free = 39 * kGib, .taken = 20 * kGib};
  const MemoryOptions share = {.gpu_utilization = 0.4};
  EXPECT_EQ(*DeviceKvBlocks(share, kMib, first), 20 * 1024);
  EXPECT_EQ(*DeviceKvBlocks(share, kMib, second), 20 * 1024);
}

TEST(DeviceMemory, FlagsSayHowLargeTheCacheIs) {
  const DeviceMemoryUse memory = {.total = kGib, .free = 512 * kMib, .taken = 256 * kMib};
  EXPECT_EQ(*DeviceKvBlocks({.num_kv_blocks = 7}, kMib, memory), 7);
  EXPECT_EQ(*DeviceKvBlocks({.kv_cache_memory_bytes = 9 * kMib + 5}, kMib, memory), 9);
  EXPECT_THAT(MessageOf(DeviceKvBlocks({.num_kv_blocks = 513}, kMib, memory).status()),
              AllOf(HasSubstr("--num-kv-blocks"), HasSubstr("513.0 MiB"), HasSubstr("512.0 MiB"),
                    HasSubstr("--gpu-memory-utilization")));
  EXPECT_THAT(MessageOf(DeviceKvBlocks({.kv_cache_memory_bytes = 2 * kGib}, kMib, memory).status()),
              HasSubstr("--kv-cache-memory-bytes: 2.00 GiB"));
  EXPECT_THAT(MessageOf(DeviceKvBlocks({.kv_cache_memory_bytes = kMib}, kMib, memory).status()),
              AllOf(HasSubstr("--kv-cache-memory-bytes"), HasSubstr("raise it")));
}

TEST(DeviceMemory, WhatDoesNotFitSaysWhatIsNeededWhatThereIsAndWhichFlagsHelp) {
  const DeviceMemoryUse memory = {.total = 24 * kGib, .free = 23 * kGib, .taken = 32 * kMib};
  EXPECT_THAT(MessageOf(CheckWeightsFit(140 * kGib, {}, memory)),
              AllOf(HasSubstr("weights need 140.00 GiB"),
                    HasSubstr("--gpu-memory-utilization 0.90 of 24.00 GiB is 21.60 GiB"),
                    HasSubstr("narrower type"), HasSubstr("--device cpu")));
  EXPECT_THAT(MessageOf(CheckWeightsFit(40 * kGib, {.num_kv_blocks = 5}, memory)),
              AllOf(HasSubstr("weights need 40.00 GiB"), HasSubstr("23.03 GiB are free")));
  const DeviceMemoryUse full = {.total = 24 * kGib, .free = 100 * kMib, .taken = 21 * kGib};
  EXPECT_THAT(
      MessageOf(DeviceKvBlocks({}, 400 * kMib, full).status()),
      AllOf(HasSubstr("largest step take 21.00 GiB"), HasSubstr("blocks of KV cache need 800.0"),
            HasSubstr("100.0 MiB are free"), HasSubstr("--max-num-batched-tokens"),
            HasSubstr("--max-num-seqs"), HasSubstr("--gpu-memory-utilization")));
}

TEST(DeviceMemory, WhatOthersTookIsSaidWithTheValueThatWouldDo) {
  const DeviceMemoryUse memory = {.total = 80 * kGib, .free = 36 * kGib, .taken = 0};
  EXPECT_THAT(MessageOf(CheckWeightsFit(kGib, {}, memory)),
              AllOf(HasSubstr("0.90 of 80.00 GiB is 72.00 GiB, and 36.00 GiB are free"),
                    HasSubstr("lower it to 0.45")));
  EXPECT_TRUE(CheckWeightsFit(kGib, {.gpu_utilization = 0.45}, memory).ok());
  EXPECT_TRUE(CheckWeightsFit(kGib, {.kv_cache_memory_bytes = kGib}, memory).ok());
}

TEST(DeviceMemory, AdviceIsForLackOfMemoryOnly) {
  EXPECT_EQ(WithDeviceMemoryAdvice(absl::InternalError("x")), absl::InternalError("x"));
  EXPECT_THAT(MessageOf(WithDeviceMemoryAdvice(absl::ResourceExhaustedError("no 5 bytes"))),
              AllOf(HasSubstr("no 5 bytes"), HasSubstr("--max-num-batched-tokens")));
}

}  // namespace
}  // namespace baton
