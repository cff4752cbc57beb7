#include "router/fleet/worker.h"

#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

internal::v1::WorkerInfo Info(const std::string& kv_type) {
  internal::v1::WorkerInfo info;
  info.set_role(internal::v1::WORKER_ROLE_DECODE);
  info.set_max_model_len(1000);
  info.mutable_shape()->set_layers(2);
  info.mutable_shape()->set_kv_heads(3);
  info.mutable_shape()->set_head_dim(64);
  info.mutable_shape()->set_block_size(16);
  info.mutable_shape()->set_dtype(kv_type);
  return info;
}

TEST(DescribeWorker, CountsTheScalesOfQuantisedKv) {
  EXPECT_EQ(DescribeWorker(Info("f32")).kv_bytes_per_token, 2 * 2 * 3 * 64 * 4u);
  EXPECT_EQ(DescribeWorker(Info("bf16")).kv_bytes_per_token, 2 * 2 * 3 * 64 * 2u);
  EXPECT_EQ(DescribeWorker(Info("int8")).kv_bytes_per_token, 2 * 2 * 3 * (64 + 4u));
  EXPECT_EQ(DescribeWorker(Info("fp8")).kv_bytes_per_token, 2 * 2 * 3 * (64 + 4u));
}

TEST(DescribeWorker, ADecodeWorkerTakesNoMoreThanItsCacheHolds) {
  internal::v1::WorkerInfo info = Info("f16");
  info.set_total_blocks(4);
  EXPECT_EQ(DescribeWorker(info).max_model_len, 65u) << "the last token is never stored";
  info.set_total_blocks(400);
  EXPECT_EQ(DescribeWorker(info).max_model_len, 1000u);
  info.set_role(internal::v1::WORKER_ROLE_PREFILL);
  info.set_total_blocks(4);
  EXPECT_EQ(DescribeWorker(info).max_model_len, 1000u);
}

TEST(TakeLoad, NumbersThatNoWorkerHasAreCut) {
  internal::v1::WorkerLoad load;
  load.set_waiting_sequences(UINT32_MAX);
  load.set_running_sequences(1);
  load.set_waiting_tokens(UINT32_MAX);
  load.set_free_blocks(UINT32_MAX);
  WorkerSnapshot seen;
  seen.total_blocks = 100;
  TakeLoad(load, seen);
  EXPECT_GT(seen.reported_sequences, 1u << 16) << "the sum must not begin anew at 0";
  EXPECT_LE(seen.queued_tokens, 1u << 28);
  EXPECT_EQ(seen.free_blocks, 100u);
}

TEST(WatchBudget, AllowsABurstAndThenARate) {
  WatchBudget budget;
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  int burst = 0;
  while (budget.Take(now)) ++burst;
  EXPECT_EQ(burst, WatchBudget::kBurst);
  for (int second = 0; second < 3; ++second) {
    now += absl::Seconds(1);
    int messages = 0;
    while (budget.Take(now)) ++messages;
    EXPECT_EQ(messages, WatchBudget::kPerSecond);
  }
}

}  // namespace
}  // namespace baton
