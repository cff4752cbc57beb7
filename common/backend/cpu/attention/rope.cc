#include "common/backend/cpu/attention/rope.h"

#include "common/backend/cpu/kernels/kernels.h"
#include "common/base/check.h"

namespace baton {

void RotateAndAppendRows(const CpuKernels& kernels, ThreadPool& pool, const Pass& pass, int rope,
                         Tensor queries, Tensor keys, Tensor values, const KvLayerView& cache) {
  const auto count = static_cast<int>(pass.ropes.size());
  BATON_CHECK(rope == kNoRope || (rope >= 0 && rope < count), "a rope of the pass");
  const RopeAngles angles = rope == kNoRope ? RopeAngles() : pass.ropes[static_cast<size_t>(rope)];
  const RopeArgs args{
      .sequences = pass.batch->sequences.data(),
      .sequence_count = static_cast<int>(pass.batch->sequences.size()),
      .cosines = angles.cosines.data(),
      .sines = angles.sines.data(),
      .pairs = angles.dim / 2,
      .kind = angles.pairs,
      .query_scales = pass.query_scales.empty() ? nullptr : pass.query_scales.data(),
      .queries = queries,
      .keys = keys,
      .values = values,
      .cache = cache};
  pool.ParallelFor(queries.rows,
                   [&](int begin, int end) { kernels.rotate_and_append(args, begin, end); });
}

}  // namespace baton
