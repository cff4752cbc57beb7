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

// Two layers, of which the second sees 40 keys.
internal::v1::WorkerInfo InfoWithAWindow() {
  internal::v1::WorkerInfo info = Info("f16");
  info.mutable_shape()->set_numerics("cpu/f16");
  info.mutable_shape()->add_layer_states()->set_kind(internal::v1::LAYER_STATE_KIND_ROWS);
  internal::v1::LayerState& state = *info.mutable_shape()->add_layer_states();
  state.set_kind(internal::v1::LAYER_STATE_KIND_LAST_ROWS);
  state.set_window(40);
  return info;
}

TEST(DescribeWorker, ALayerWithAWindowHasBlocksForWhatItKeeps) {
  internal::v1::WorkerInfo info = InfoWithAWindow();
  info.set_total_blocks(12);
  // Up to 6 rows each layer has a block in each. Of more the second has 9 at most.
  EXPECT_EQ(DescribeWorker(info).max_model_len, 6 * 16 + 1u);
  info.set_total_blocks(30);
  const WorkerSnapshot worker = DescribeWorker(info);
  EXPECT_EQ(worker.max_model_len, 21 * 16 + 1u);
  EXPECT_EQ(TokensIn(worker, 20), 11 * 16u);
}

TEST(DescribeWorker, OfAnImpossibleShapeNoWindowIsTaken) {
  internal::v1::WorkerInfo info = InfoWithAWindow();
  info.mutable_shape()->mutable_layer_states(1)->set_window(UINT32_MAX);
  EXPECT_EQ(DescribeWorker(info).groups.count(), 1);
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
