#include "common/backend/cuda/attention/attention.h"

#include <cmath>
#include <limits>
#include <span>

#include "common/backend/cuda/attention/attention_launch.h"
#include "common/backend/cuda/attention/decode_attention.h"
#include "common/backend/cuda/attention/prefill_attention.h"
#include "common/backend/cuda/attention/rotate_heads.h"
#include "common/backend/cuda/attention/run_attention.h"
#include "common/backend/cuda/attention/segment_attention.h"
#include "common/backend/cuda/attention/vector_attention.h"
#include "common/base/check.h"

namespace baton {

AttentionTiles TilesFor(int heads, const KvLayerView& cache) {
  const int group = heads / cache.kv_heads;
  if (!DecodeAttentionTakes(cache, group)) return {};
  return {.prefill_rows = PrefillQueries(cache.head_dim) / group, .run_rows = RunRows(group)};
}

namespace {

// What makes scores exponents of 2. A scale of 1 / sqrt(head_dim) is taken as the exact number that
// it was rounded from.
float ExponentScale(float scale, int head_dim) {
  const double log2_e = 1.4426950408889634;
  const bool usual = scale == 1 / std::sqrt(static_cast<float>(head_dim));
  return static_cast<float>(usual ? log2_e / std::sqrt(head_dim) : log2_e * scale);
}

// Runs, as the tasks of a kernel.
AttentionArgs RunsOf(AttentionArgs args) {
  args.work.tasks = args.work.runs;
  args.work.counts += 2;
  args.work.max_tasks = args.work.max_runs;
  return args;
}

// A part's tiles and tasks.
void LaunchPart(const AttentionArgs& args, cudaStream_t stream) {
  const AttentionWork& work = args.work;
  if (!DecodeAttentionTakes(args.cache, args.group)) {
    BATON_CHECK(work.max_tiles == 0 && work.max_runs == 0, "a plan of single rows");
    if (work.max_tasks > 0) LaunchVectorAttention(args, stream);
    return;
  }
  if (work.cut == AttentionCut::kAlike) {
    if (work.max_tiles > 0) LaunchSegmentTiles(args, stream);
    if (work.max_tasks > 0) LaunchSegmentTasks(args, stream);
    if (work.max_runs > 0) LaunchSegmentTasks(RunsOf(args), stream);
    return;
  }
  if (work.max_tiles > 0) LaunchPrefillAttention(args, stream);
  if (work.max_tasks > 0) LaunchDecodeAttention(args, stream);
  if (work.max_runs > 0) LaunchRunAttention(RunsOf(args), stream);
}

}  // namespace

AttentionArgs AttentionArgsFor(const CudaPass& pass, const AttentionWork& work,
                               const AttentionRule& rule, Tensor queries, const KvLayerView& cache,
                               Tensor out, const CudaAttentionScratch& scratch) {
  BATON_CHECK(cache.head_dim % kKvPageTokens == 0 && cache.head_dim <= kMaxVectorHeadDim,
              "head_dim must be a multiple of kKvPageTokens up to kMaxVectorHeadDim",
              cache.head_dim);
  BATON_CHECK(queries.columns == out.columns && queries.columns % cache.head_dim == 0,
              "columns of queries and contexts");
  const int heads = queries.columns / cache.head_dim;
  BATON_CHECK(heads % cache.kv_heads == 0, "query heads of a KV head");
  // Each thread block has one task or tile and one head; a grid has fewer than 2^31 blocks.
  constexpr int kMaxItems = std::numeric_limits<int>::max();
  BATON_CHECK(work.max_tasks <= kMaxItems / heads && work.max_tiles <= kMaxItems / heads,
              "blocks of a launch");
  BATON_CHECK(rule.window >= 0, "the window must not be negative", rule.window);
  return {.pass = pass,
          .work = work,
          .queries = queries,
          .cache = cache,
          .out = out,
          .scratch = scratch,
          .heads = heads,
          .group = heads / cache.kv_heads,
          .scale = ExponentScale(rule.scale, cache.head_dim),
          .window = rule.window == 0 ? kNoWindow : rule.window,
          .sinks = rule.sinks};
}

void LaunchAttention(const CudaPass& pass, std::span<const AttentionWork> parts,
                     const AttentionRule& rule, Tensor queries, const KvLayerView& cache,
                     Tensor out, const CudaAttentionScratch& scratch, cudaStream_t stream) {
  for (const AttentionWork& part : parts) {
    LaunchPart(AttentionArgsFor(pass, part, rule, queries, cache, out, scratch), stream);
  }
  if (IsRotated(cache.dtype)) LaunchRotateHeads(out, cache.head_dim, stream);
}

}  // namespace baton
