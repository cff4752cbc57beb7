#include "common/backend/cpu/attention/rope.h"

#include "common/backend/cpu/kernels/kernels.h"
#include "common/base/check.h"

namespace baton {

void RotateAndAppendRows(const CpuKernels& kernels, ThreadPool& pool, const Pass& pass, int rope,
                         Tensor queries, Tensor keys, Tensor values, const KvLayerView& cache) {
  BATON_CHECK(rope != kNoRope, "there yet");
  const RopeAngles& angles = pass.ropes[static_cast<size_t>(rope)];
  const RopeArgs args{.sequences = pass.batch->sequences.data(),
                      .sequence_count = static_cast<int>(pass.batch->sequences.size()),
                      .cosines = angles.cosines.data(),
                      .sines = angles.sines.data(),
                      .pairs = angles.dim / 2,
                      .kind = angles.pairs,
                      .queries = queries,
                      .keys = keys,
                      .values = values,
                      .cache = cache};
  pool.ParallelFor(queries.rows,
                   [&](int begin, int end) { kernels.rotate_and_append(args, begin, end); });
}

}  // namespace baton
