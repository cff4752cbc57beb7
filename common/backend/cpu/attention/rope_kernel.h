// The computation of rope.h. Only the sources of the kernel tables (kernels.h) include it.
#pragma once

#include "common/backend/cpu/attention/kv_element.h"
#include "common/backend/cpu/attention/rope.h"
#include "common/backend/cpu/simd/lanes.h"

namespace baton {

template <class Simd>
struct RopeKernel {
  using F = typename Simd::F;

  [[gnu::always_inline]] static void RotatePair(float cosine, float sine, float& a, float& b) {
    const float rotated = __builtin_fmaf(a, cosine, -(b * sine));
    b = __builtin_fmaf(a, sine, b * cosine);
    a = rotated;
  }

  // Rotates a head in which the first elements of all pairs lie together, and then the second ones.
  [[gnu::always_inline]] static void RotateHalves(const float* cosines, const float* sines,
                                                  int pairs, float* head) {
    int i = 0;
    for (; i + kLanes <= pairs; i += kLanes) {
      const F cosine = Simd::Load(cosines + i);
      const F sine = Simd::Load(sines + i);
      const F a = Simd::Load(head + i);
      const F b = Simd::Load(head + pairs + i);
      const F minus_sine = Simd::Mul(sine, Simd::Set(-1.0f));
      Simd::Store(head + i, Simd::Fma(a, cosine, Simd::Mul(b, minus_sine)));
      Simd::Store(head + pairs + i, Simd::Fma(a, sine, Simd::Mul(b, cosine)));
    }
    for (; i < pairs; ++i) RotatePair(cosines[i], sines[i], head[i], head[i + pairs]);
  }

  // Rotates all heads of a row in which the two elements of a pair lie together. Each element
  // becomes fma(a, own, b * other), with (own, other) = (c, -s) for the first and (s, c) for the
  // second.
  [[gnu::always_inline]] static void RotateInterleaved(const float* cosines, const float* sines,
                                                       int pairs, int head_dim, int columns,
                                                       float* row) {
    constexpr int kPairs = kLanes / 2;
    int i = 0;
    for (; i + kPairs <= pairs; i += kPairs) {
      Lanes own_lanes, other_lanes;
      for (int k = 0; k < kPairs; ++k) {
        own_lanes.v[2 * k] = other_lanes.v[2 * k + 1] = cosines[i + k];
        own_lanes.v[2 * k + 1] = sines[i + k];
        other_lanes.v[2 * k] = -sines[i + k];
      }
      const F own = Simd::Load(own_lanes.v);
      const F other = Simd::Load(other_lanes.v);
      for (int column = 2 * i; column < columns; column += head_dim) {
        const F x = Simd::Load(row + column);
        Simd::Store(row + column, Simd::Fma(Simd::Evens(x), own, Simd::Mul(Simd::Odds(x), other)));
      }
    }
    for (; i < pairs; ++i) {
      for (int column = 2 * i; column < columns; column += head_dim) {
        RotatePair(cosines[i], sines[i], row[column], row[column + 1]);
      }
    }
  }

  [[gnu::always_inline]] static void RotateRow(const RopeArgs& args, Tensor tensor, int row) {
    const size_t angles = static_cast<size_t>(row) * static_cast<size_t>(args.pairs);
    const float* cosines = args.cosines + angles;
    const float* sines = args.sines + angles;
    const int head_dim = args.cache.head_dim;
    float* const values = tensor.Row(row);
    if (args.kind == RopePairs::kInterleaved) {
      return RotateInterleaved(cosines, sines, args.pairs, head_dim, tensor.columns, values);
    }
    for (int column = 0; column < tensor.columns; column += head_dim) {
      RotateHalves(cosines, sines, args.pairs, values + column);
    }
  }

  [[gnu::always_inline]] static void ScaleQueries(const RopeArgs& args, int row) {
    if (args.query_scales == nullptr) return;
    const F scale = Simd::Set(args.query_scales[row]);
    float* const queries = args.queries.Row(row);
    // A head is a multiple of 16 floats.
    for (int i = 0; i < args.queries.columns; i += kLanes) {
      Simd::Store(queries + i, Simd::Mul(Simd::Load(queries + i), scale));
    }
  }

  // Rotates the queries of a row as the cache's heads are rotated (kv_int4.h).
  [[gnu::always_inline]] static void RotateQueries(const RopeArgs& args, int row) {
    const int head_dim = args.cache.head_dim;
    for (int column = 0; column < args.queries.columns; column += head_dim) {
      KvInt4Kernel<Simd>::RotateHead(head_dim, args.queries.Row(row) + column);
    }
  }

  // Rotates and stores rows [begin, end).
  static void Run(const RopeArgs& args, int begin, int end) {
    const KvLayerView& cache = args.cache;
    for (int s = 0; s < args.sequence_count; ++s) {
      const BatchSequence& sequence = args.sequences[s];
      const int last_row = sequence.first_row + sequence.row_count;
      const int last = end < last_row ? end : last_row;
      for (int row = begin > sequence.first_row ? begin : sequence.first_row; row < last; ++row) {
        if (args.pairs > 0) {
          RotateRow(args, args.queries, row);
          RotateRow(args, args.keys, row);
        }
        ScaleQueries(args, row);
        if (IsRotated(cache.dtype)) RotateQueries(args, row);
        const int position = sequence.first_position + row - sequence.first_row;
        const int32_t block = sequence.block_table[cache.TableIndex(position)];
        const int token = position % cache.block_size;
        StoreKvRow<Simd>(cache.part(), args.keys.Row(row), cache.KeyRow(block, token),
                         cache.KeyScales(block, token));
        StoreKvRow<Simd>(cache.part(), args.values.Row(row), cache.ValueRow(block, token),
                         cache.ValueScales(block, token));
      }
    }
  }
};

}  // namespace baton
