// Attention of a sequence's only row, a segment at a time, on keys and values as they lie in the
// cache. Included by the sources of the kernel tables only (kernels.h).
//
// All query heads of a KV head share what is widened in registers. Scores: vectors hold the 16
// lanes of a product, one vector for each key and query; those of 16 keys are folded together.
#pragma once

#include "common/backend/cpu/attention_kernel.h"

namespace baton {

template <class Simd>
struct AttentionRowKernel {
  using F = typename Simd::F;
  using Result = typename Softmax<Simd>::Result;

  static constexpr int kQueries = 4;  // that share registers, at most
  static constexpr int kSegmentVectors = kSegment / kLanes;
  static constexpr int kPrefetchPages = 2;

  // Rows of a head lie apart, and blocks anywhere: no hardware prefetcher follows in time.
  template <class Stored>
  [[gnu::always_inline]] static void Prefetch(const Stored* rows, size_t stride, size_t elements) {
    constexpr size_t kCacheLine = 64;
    for (int i = 0; i < kPage; ++i) {
      const auto* row = reinterpret_cast<const uint8_t*>(rows + static_cast<size_t>(i) * stride);
      for (size_t byte = 0; byte < elements * sizeof(Stored); byte += kCacheLine) {
        __builtin_prefetch(row + byte);
      }
    }
  }

  // The scores of the first `count` keys of a page, for kCount queries; `scores`: of the first
  // query, at the page.
  template <class Element, int kCount>
  [[gnu::always_inline]] static void ScorePage(const typename Element::Stored* keys, size_t stride,
                                               int count, const float* queries, int head_dim,
                                               Lanes* scores) {
    constexpr int kKeys = Simd::kRowKeys;
    Lanes products[kCount][kPage];
    for (int key = 0; key < count; key += kKeys) {
      F sums[kCount][kKeys];
      for (int q = 0; q < kCount; ++q) {
        for (int k = 0; k < kKeys; ++k) sums[q][k] = Simd::Zero();
      }
      const auto* row = keys + static_cast<size_t>(key) * stride;
      for (int d = 0; d < head_dim; d += kLanes) {
        F widened[kKeys];
        for (int k = 0; k < kKeys; ++k) {
          widened[k] = Element::Load(row + static_cast<size_t>(k) * stride + d);
        }
        for (int q = 0; q < kCount; ++q) {
          const F query = Simd::Load(queries + q * head_dim + d);
          for (int k = 0; k < kKeys; ++k) sums[q][k] = Simd::Fma(widened[k], query, sums[q][k]);
        }
      }
      for (int q = 0; q < kCount; ++q) {
        for (int k = 0; k < kKeys; ++k) Simd::Store(products[q][key + k].v, sums[q][k]);
      }
    }
    const F scale = Simd::Set(ScoreScale(head_dim));
    for (int q = 0; q < kCount; ++q) {
      F lanes[kPage];
      for (int k = 0; k < kPage; ++k) lanes[k] = Simd::Load(products[q][k].v);
      Simd::Store(scores[q * kSegmentVectors].v, Simd::Mul(Simd::FoldAll(lanes), scale));
    }
  }

  // Adds the values of the first `count` keys of a page to the sums of kCount queries, for kColumns
  // vectors of columns. `weights`, `sums`: the first query's.
  template <class Element, int kCount, int kColumns>
  [[gnu::always_inline]] static void AddValues(const typename Element::Stored* values,
                                               size_t stride, int count, const Lanes* weights,
                                               bool first, int state_lanes, Lanes* sums) {
    F tile[kCount][kColumns];
    for (int q = 0; q < kCount; ++q) {
      for (int c = 0; c < kColumns; ++c) {
        tile[q][c] = first ? Simd::Zero() : Simd::Load(sums[q * state_lanes + c].v);
      }
    }
    for (int i = 0; i < count; ++i) {
      const auto* row = values + static_cast<size_t>(i) * stride;
      F columns[kColumns];
      for (int c = 0; c < kColumns; ++c) columns[c] = Element::Load(row + c * kLanes);
      for (int q = 0; q < kCount; ++q) {
        const F weight = Simd::Set(weights[q * kSegmentVectors].v[i]);
        for (int c = 0; c < kColumns; ++c) tile[q][c] = Simd::Fma(columns[c], weight, tile[q][c]);
      }
    }
    for (int q = 0; q < kCount; ++q) {
      for (int c = 0; c < kColumns; ++c) Simd::Store(sums[q * state_lanes + c].v, tile[q][c]);
    }
  }

  // One page for kCount queries of one KV head.
  template <class Element, int kCount>
  [[gnu::noinline]] static void ScoreQueries(const RowAttentionArgs& args,
                                             const KvPage<Element>& page, int count,
                                             const float* queries, Lanes* scores) {
    ScorePage<Element, kCount>(page.keys, page.stride, count, queries, args.operands.cache.head_dim,
                               scores);
  }
  template <class Element, int kCount>
  [[gnu::noinline]] static void SumQueries(const RowAttentionArgs& args,
                                           const KvPage<Element>& page, int count,
                                           const Lanes* weights, bool first, Lanes* sums) {
    constexpr int kColumns = Simd::kRowVectors;
    const int vectors = args.operands.cache.head_dim / kLanes;
    int c = 0;
    for (; c + kColumns <= vectors; c += kColumns) {
      AddValues<Element, kCount, kColumns>(page.values + c * kLanes, page.stride, count, weights,
                                           first, vectors + 1, sums + c);
    }
    for (; c < vectors; ++c) {
      AddValues<Element, kCount, 1>(page.values + c * kLanes, page.stride, count, weights, first,
                                    vectors + 1, sums + c);
    }
  }

  // Calls work.template operator()<n>(first) for the group's queries, n at a time.
  template <class Work>
  [[gnu::always_inline]] static void ForQueries(int group, const Work& work) {
    int query = 0;
    for (; query + kQueries <= group; query += kQueries) work.template operator()<kQueries>(query);
    if (group - query == 3) work.template operator()<3>(query);
    if (group - query == 2) work.template operator()<2>(query);
    if (group - query == 1) work.template operator()<1>(query);
  }

  template <class Element>
  static void RunAs(const RowAttentionArgs& args) {
    const AttentionOperands& operands = args.operands;
    const KvLayerView& cache = operands.cache;
    const int group = operands.group();
    const int head_dim = cache.head_dim;
    const int state_lanes = operands.state_lanes();
    const int start = args.segment * kSegment;
    const int count = Least(kSegment, args.sequence->first_position + 1 - start);
    const float* queries =
        operands.queries.Row(args.sequence->first_row) + args.first_head * group * head_dim;
    Lanes* states = args.states + static_cast<size_t>(args.segment) * args.segment_stride;
    const size_t width = static_cast<size_t>(args.head_count * head_dim);
    const auto page_at = [&](int key) __attribute__((always_inline)) {
      return KvPageAt<Element>(cache, *args.sequence, start + key, args.first_head);
    };
    const int ahead = kPrefetchPages * kPage;
    for (int key = 0; key < Least(count, ahead); key += kPage) {
      Prefetch(page_at(key).keys, page_at(key).stride, width);
    }
    for (int key = 0; key < count; key += kPage) {
      KvPage<Element> page = page_at(key);
      if (key + ahead < count) Prefetch(page_at(key + ahead).keys, page.stride, width);
      // The first values follow the last keys.
      else
        Prefetch(page_at((key + ahead - count) / kPage * kPage).values, page.stride, width);
      for (int head = 0; head < args.head_count; ++head, page.keys += head_dim) {
        ForQueries(
            group, [&]<int kCount>(int query) __attribute__((always_inline)) {
              const int index = head * group + query;
              ScoreQueries<Element, kCount>(args, page, Least(kPage, count - key),
                                            queries + index * head_dim,
                                            args.scores + index * kSegmentVectors + key / kLanes);
            });
      }
    }
    for (int query = 0; query < args.head_count * group; ++query) {
      const Result result =
          Softmax<Simd>::Exponentials(args.scores + query * kSegmentVectors, count);
      Lanes& last = states[query * state_lanes + state_lanes - 1];
      last.v[0] = result.max;
      last.v[1] = result.sum;
    }
    for (int key = 0; key < count; key += kPage) {
      KvPage<Element> page = page_at(key);
      if (key + ahead < count) Prefetch(page_at(key + ahead).values, page.stride, width);
      for (int head = 0; head < args.head_count; ++head, page.values += head_dim) {
        ForQueries(
            group, [&]<int kCount>(int query) __attribute__((always_inline)) {
              const int index = head * group + query;
              SumQueries<Element, kCount>(args, page, Least(kPage, count - key),
                                          args.scores + index * kSegmentVectors + key / kLanes,
                                          key == 0, states + index * state_lanes);
            });
      }
    }
  }

  static void Run(const RowAttentionArgs& args) {
    switch (args.operands.cache.dtype) {
      case KvDtype::kF32:
        return RunAs<KvElement<Simd, KvDtype::kF32>>(args);
      case KvDtype::kF16:
        return RunAs<KvElement<Simd, KvDtype::kF16>>(args);
      case KvDtype::kBf16:
        return RunAs<KvElement<Simd, KvDtype::kBf16>>(args);
    }
  }

  // Merges the row's first `segments` segments, and writes its contexts.
  static void Merge(const RowAttentionArgs& args, int segments) {
    const AttentionOperands& operands = args.operands;
    const int group = operands.group();
    const int head_dim = operands.cache.head_dim;
    const int vectors = head_dim / kLanes;
    float* out = operands.out.Row(args.sequence->first_row) + args.first_head * group * head_dim;
    for (int query = 0; query < args.head_count * group; ++query) {
      Lanes* state = args.states + query * (vectors + 1);
      for (int segment = 1; segment < segments; ++segment) {
        const Lanes* other = state + static_cast<size_t>(segment) * args.segment_stride;
        Softmax<Simd>::Merge({other[vectors].v[0], other[vectors].v[1]}, other, vectors, state);
      }
      Softmax<Simd>::Finish(state, vectors, out + query * head_dim);
    }
  }
};

}  // namespace baton
