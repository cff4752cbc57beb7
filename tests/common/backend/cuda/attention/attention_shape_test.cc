// How well the grids of attention fill an H200, for models of 1, 8 and 70 billion weights: computed
// from the plans that a launch has, without running it. The waves that are asked for are those of
// today: they may grow.
#include <gtest/gtest.h>

#include <vector>

#include "common/backend/cuda/attention/attention_plan.h"
#include "common/backend/cuda/attention/prefill_attention.h"

namespace baton {
namespace {

constexpr int kMultiprocessors = 132;
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
  PlanAttention(sequences, PrefillQueries(model.head_dim) / (model.heads / model.kv_heads), plan);
  return plan;
}

// The waves of thread blocks that one layer takes for a prompt of `tokens` tokens.
double PrefillWaves(const AttentionModel& model, int tokens) {
  const AttentionPlan plan = PlanFor(model, {{0, tokens, 0, nullptr}});
  return static_cast<double>(plan.tile_count * model.kv_heads) /
         (kMultiprocessors * kPrefillBlocks);
}

// The same for a step of `batch` sequences of `context` tokens.
double DecodeWaves(const AttentionModel& model, int batch, int context) {
  std::vector<BatchSequence> sequences;
  for (int i = 0; i < batch; ++i) sequences.push_back({i, 1, context - 1, nullptr});
  const AttentionPlan plan = PlanFor(model, sequences);
  return static_cast<double>(plan.task_count * model.kv_heads) / (kMultiprocessors * kDecodeBlocks);
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

}  // namespace
}  // namespace baton
