#include "common/backend/cpu/rope.h"

#include <algorithm>

#include "common/backend/cpu/kv_element.h"

namespace baton {
namespace {

struct RopeArgs {
  const Pass* pass;
  Tensor queries;
  Tensor keys;
  Tensor values;
  KvLayerView cache;
};

struct RopeKernel {
  [[gnu::always_inline]] static inline void RotatePair(float cosine, float sine, float& a,
                                                       float& b) {
    const float rotated = __builtin_fmaf(a, cosine, -(b * sine));
    b = __builtin_fmaf(a, sine, b * cosine);
    a = rotated;
  }

  // All heads of a row. `cosines`, `sines` [rope_dim / 2].
  [[gnu::always_inline]] static inline void RotateRow(const Pass& pass, const float* cosines,
                                                      const float* sines, int head_dim, int columns,
                                                      float* row) {
    const int half = pass.rope_dim / 2;
    for (float* head = row; head != row + columns; head += head_dim) {
      for (int i = 0; i < half; ++i) {
        if (pass.rope_pairs == RopePairs::kInterleaved) {
          RotatePair(cosines[i], sines[i], head[2 * i], head[2 * i + 1]);
        } else {
          RotatePair(cosines[i], sines[i], head[i], head[i + half]);
        }
      }
    }
  }

  [[gnu::always_inline]] static inline void Run(const RopeArgs& args, const int& begin,
                                                const int& end) {
    const Pass& pass = *args.pass;
    const KvLayerView& cache = args.cache;
    const size_t half = static_cast<size_t>(pass.rope_dim / 2);
    for (const PassSequence& sequence : pass.sequences) {
      const int first = std::max(begin, sequence.first_row);
      const int last = std::min(end, sequence.first_row + sequence.row_count);
      for (int row = first; row < last; ++row) {
        const float* cosines = pass.rope_cos.data() + static_cast<size_t>(row) * half;
        const float* sines = pass.rope_sin.data() + static_cast<size_t>(row) * half;
        RotateRow(pass, cosines, sines, cache.head_dim, args.queries.columns,
                  args.queries.Row(row));
        RotateRow(pass, cosines, sines, cache.head_dim, args.keys.columns, args.keys.Row(row));
        const int position = sequence.first_position + row - sequence.first_row;
        const int32_t block = sequence.block_table[position / cache.block_size];
        const int token = position % cache.block_size;
        StoreKvRow(cache.dtype, args.keys.Row(row), args.keys.columns, cache.KeyRow(block, token));
        StoreKvRow(cache.dtype, args.values.Row(row), args.values.columns,
                   cache.ValueRow(block, token));
      }
    }
  }
};

}  // namespace

void RotateAndAppendRows(CpuIsa isa, ThreadPool& pool, const Pass& pass, Tensor queries,
                         Tensor keys, Tensor values, const KvLayerView& cache) {
  const RopeArgs args{&pass, queries, keys, values, cache};
  pool.ParallelFor(queries.rows,
                   [&](int begin, int end) { RunOn<RopeKernel>(isa, args, begin, end); });
}

}  // namespace baton
