#include "common/backend/cpu/attention/rope.h"

#include "common/backend/cpu/kernels/kernels.h"

namespace baton {

void RotateAndAppendRows(const CpuKernels& kernels, ThreadPool& pool, const Pass& pass,
                         Tensor queries, Tensor keys, Tensor values, const KvLayerView& cache) {
  const RopeArgs args{.sequences = pass.batch->sequences.data(),
                      .sequence_count = static_cast<int>(pass.batch->sequences.size()),
                      .cosines = pass.rope.cosines.data(),
                      .sines = pass.rope.sines.data(),
                      .pairs = pass.rope.dim / 2,
                      .kind = pass.rope.pairs,
                      .queries = queries,
                      .keys = keys,
                      .values = values,
                      .cache = cache};
  pool.ParallelFor(queries.rows,
                   [&](int begin, int end) { kernels.rotate_and_append(args, begin, end); });
}

}  // namespace baton
