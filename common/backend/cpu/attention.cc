#include "common/backend/cpu/attention.h"

#include <algorithm>

#include "common/backend/cpu/kernels.h"
#include "common/base/check.h"

namespace baton {
namespace {

constexpr int kTileRows = 16;  // query rows of a task: they share the widened keys and values

std::vector<AttentionTask> CutTasks(const Pass& pass, int kv_heads) {
  std::vector<AttentionTask> tasks;
  for (const PassSequence& sequence : pass.sequences) {
    for (int row = 0; row < sequence.row_count; row += kTileRows) {
      for (int kv_head = 0; kv_head < kv_heads; ++kv_head) {
        tasks.push_back({&sequence, sequence.first_row + row,
                         std::min(kTileRows, sequence.row_count - row), kv_head});
      }
    }
  }
  return tasks;
}

}  // namespace

void AttendRows(const CpuKernels& kernels, ThreadPool& pool, const Pass& pass, Tensor queries,
                const KvLayerView& cache, Tensor out, std::vector<AttentionScratch>& scratch) {
  const int head_dim = cache.head_dim;
  BATON_CHECK(head_dim % kLanes == 0 && head_dim <= kMaxHeadDim, "head dimension");
  const size_t group = static_cast<size_t>(queries.columns / head_dim / cache.kv_heads);
  const std::vector<AttentionTask> tasks = CutTasks(pass, cache.kv_heads);
  pool.Run(static_cast<int>(tasks.size()), [&](int thread, int task) {
    AttentionScratch& own = scratch[static_cast<size_t>(thread)];
    own.keys.resize(static_cast<size_t>(kKeyStride * head_dim));
    own.values.resize(static_cast<size_t>(kSegment * head_dim));
    own.states.resize(kTileRows * group * static_cast<size_t>(head_dim + 2));
    kernels.attend({.task = tasks[static_cast<size_t>(task)],
                    .queries = queries,
                    .cache = cache,
                    .out = out,
                    .keys = own.keys.data(),
                    .values = own.values.data(),
                    .states = own.states.data()});
  });
}

}  // namespace baton
