// How well the grids of attention fill an H200, for models of 1, 8 and 70 billion weights: computed
// from the plans that a launch has, without running it. The waves that are asked for are those of
// today: they may grow.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/backend/cuda/attention/attention_args.h"
#include "common/backend/cuda/attention/attention_plan.h"
#include "common/backend/cuda/attention/prefill_attention.h"
#include "common/backend/cuda/attention/run_attention.h"
#include "tests/common/backend/cuda/product/product_shapes.h"

namespace baton {
namespace {

// Blocks on a multiprocessor, by the registers and the shared memory of the kernels for bf16
// (tests/gpu/sass_budget.txt, DecodeShape, PrefillShape).
constexpr int kDecodeBlocks = 3;
constexpr int kPrefillBlocks = 2;

struct AttentionModel {
  int heads;
  int kv_heads;
  int head_dim;
};
constexpr AttentionModel k1B = {32, 8, 64};
constexpr AttentionModel k8B = {32, 8, 128};
constexpr AttentionModel k70B = {64, 8, 128};

AttentionPlan PlanFor(const AttentionModel& model, const std::vector<BatchSequence>& sequences) {
  AttentionPlan plan;
  const int group = model.heads / model.kv_heads;
  PlanAttention(sequences, {PrefillQueries(model.head_dim) / group, RunRows(group)}, plan);
  return plan;
}

// The waves of thread blocks that one layer takes for a prompt of `tokens` tokens.
double PrefillWaves(const AttentionModel& model, int tokens) {
  const AttentionPlan plan = PlanFor(model, {{0, tokens, 0, nullptr}});
  return static_cast<double>(plan.tile_count * model.kv_heads) /
         (kH200.multiprocessors * kPrefillBlocks);
}

// The thread blocks of a layer for a step of `batch` sequences of `context` tokens.
int DecodeBlocks(const AttentionModel& model, int batch, int context) {
  std::vector<BatchSequence> sequences;
  for (int i = 0; i < batch; ++i) sequences.push_back({i, 1, context - 1, nullptr});
  return PlanFor(model, sequences).task_count * model.kv_heads;
}

double DecodeWaves(const AttentionModel& model, int batch, int context) {
  return static_cast<double>(DecodeBlocks(model, batch, context)) /
         (kH200.multiprocessors * kDecodeBlocks);
}

// Bytes in flight on each multiprocessor: each warp of a block waits for a page of keys and one of
// values. The memory is kept busy by 33 KB (vector_product.h).
double DecodeBytesInFlight(const AttentionModel& model, int batch, int context) {
  const double page_bytes = 2.0 * kKvPageTokens * model.head_dim * 2;
  const int running =
      std::min(DecodeBlocks(model, batch, context), kH200.multiprocessors * kDecodeBlocks);
  return page_bytes * kAttentionWarps * running / kH200.multiprocessors;
}

TEST(AttentionShape, AChunkOf2048TokensFillsTheDevice) {
  EXPECT_GE(PrefillWaves(k1B, 2048), 1.9);
  EXPECT_GE(PrefillWaves(k8B, 2048), 1.9);
  EXPECT_GE(PrefillWaves(k70B, 2048), 3.8);
}

// The default of --max-num-batched-tokens: half of the device has no block.
TEST(AttentionShape, AChunkOf512TokensDoesNotFillTheDevice) {
  EXPECT_NEAR(PrefillWaves(k1B, 512), 0.48, 0.01);
  EXPECT_NEAR(PrefillWaves(k8B, 512), 0.48, 0.01);
  EXPECT_NEAR(PrefillWaves(k70B, 512), 0.97, 0.01);
}

TEST(AttentionShape, SequencesOfDecodeStepsFillTheDeviceTogether) {
  for (const AttentionModel& model : {k1B, k8B, k70B}) {
    EXPECT_NEAR(DecodeWaves(model, 1, 1024), 0.08, 0.01);
    EXPECT_NEAR(DecodeWaves(model, 1, 8192), 0.65, 0.01);
    EXPECT_GE(DecodeWaves(model, 4, 8192), 2.5);
    EXPECT_GE(DecodeWaves(model, 16, 1024), 1.2);
    EXPECT_GE(DecodeWaves(model, 64, 1024), 5);
  }
}

// As tiles of a prompt one sequence had a block for each KV head, 8 of them.
TEST(AttentionShape, ATokenAndFourGuessesHaveAsManyBlocksAsTwoTokens) {
  const AttentionPlan plan = PlanFor(k8B, {{0, 5, 8192 - 5, nullptr}});
  EXPECT_EQ(plan.tile_count, 0);
  EXPECT_EQ(plan.run_count * k8B.kv_heads, DecodeBlocks(k8B, 2, 8192));
}

// A segment has 256 keys, so that few short sequences have fewer blocks than there are
// multiprocessors. The fewest sequences of 1,024 tokens whose segments have enough in flight:
TEST(AttentionShape, FourSequencesOf1024TokensHaveEnoughBytesInFlight) {
  for (const int batch : {1, 2, 4, 8, 16, 32, 64}) {
    EXPECT_EQ(DecodeBytesInFlight(k1B, batch, 1024) >= kBytesInFlight, batch >= 8) << batch;
    EXPECT_EQ(DecodeBytesInFlight(k8B, batch, 1024) >= kBytesInFlight, batch >= 4) << batch;
    EXPECT_EQ(DecodeBytesInFlight(k70B, batch, 1024) >= kBytesInFlight, batch >= 4) << batch;
    for (const AttentionModel& model : {k1B, k8B, k70B}) {
      EXPECT_GE(DecodeBytesInFlight(model, batch, 8192), kBytesInFlight) << batch;
    }
  }
}

// All blocks but those of the last segments take equally long, the others less.
TEST(AttentionShape, TheLastWaveOfDecodeStepsLeavesFewPlacesEmpty) {
  for (const int batch : {16, 32, 64}) {
    for (const int context : {1024, 8192}) {
      const double waves = DecodeWaves(k8B, batch, context);
      EXPECT_GE(waves / std::ceil(waves), 0.64) << batch << " of " << context;
    }
  }
}

}  // namespace
}  // namespace baton
