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

}  // namespace
}  // namespace baton
