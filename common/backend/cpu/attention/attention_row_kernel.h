// Attention of a sequence's only row, one segment at a time, on keys and values as they lie in the
// cache. Only the sources of the kernel tables (kernels.h) include it.
//
// All query heads of a KV head share the elements that are widened in registers. For the scores,
// vectors hold the 16 lanes of a product, one vector for each key and query; the vectors of 16 keys
// are folded together.
#pragma once

#include "common/backend/cpu/attention/attention_kernel.h"

namespace baton {

template <class Simd>
struct AttentionRowKernel {
  using F = typename Simd::F;
  using Result = typename Softmax<Simd>::Result;

  static constexpr int kQueries = 4;  // most queries that share registers
  static constexpr int kSegmentVectors = kAttentionSegment / kLanes;
  static constexpr int kPrefetchPages = 2;

  // The rows of a page at one KV head, keys or values, and the rows of a page that is needed soon.
  // The rows of a head lie apart, and blocks lie anywhere, so no hardware prefetcher follows in
  // time.
  template <class Element>
  struct PageRows {
    KvRows<Element> rows;
    KvRows<Element> ahead;
    int count;

    [[gnu::always_inline]] void Widen(int i, int d, F* to) const { rows.Widen(i, d, to); }
    [[gnu::always_inline]] void NextHead(int head_dim) {
      rows.NextHead(head_dim);
      ahead.NextHead(head_dim);
    }
    // Prefetches one row, a few cache lines, because a burst would make the loads wait.
    [[gnu::always_inline]] void PrefetchRow(int i, int head_dim) const {
      constexpr size_t kCacheLine = 64;  // bytes
      const uint8_t* row = ahead.Row(i);
      const size_t bytes = KvHeadBytes(Element::kType, static_cast<size_t>(head_dim));
      for (size_t b = 0; b < bytes; b += kCacheLine) __builtin_prefetch(row + b);
    }
  };

  // Computes the scores of a page's keys for kCount queries. `scores` points to the first query's,
  // at the page. `scale` is read where it is used: in a register it would displace lanes.
  template <class Element, int kCount>
  [[gnu::noinline]] static void ScorePage(const PageRows<Element>& page, const float* queries,
                                          int head_dim, const float* scale, Lanes* scores) {
    constexpr int kKeys = Simd::kRowKeys;
    constexpr int kVectors = Element::kVectors;
    Lanes products[kCount][kKvPageTokens];
    for (int key = 0; key < page.count; key += kKeys) {
      F sums[kCount][kKeys];
#pragma GCC unroll 4
      for (int k = 0; k < kKeys; ++k) {
        page.PrefetchRow(key + k, head_dim);
        for (int q = 0; q < kCount; ++q) sums[q][k] = Simd::Zero();
      }
      for (int d = 0; d < head_dim; d += kVectors * kLanes) {
        F widened[kKeys][kVectors];
        for (int k = 0; k < kKeys; ++k) page.Widen(key + k, d, widened[k]);
        for (int v = 0; v < kVectors; ++v) {
          for (int q = 0; q < kCount; ++q) {
            const F query = Simd::Load(queries + q * head_dim + d + v * kLanes);
            for (int k = 0; k < kKeys; ++k) {
              sums[q][k] = Simd::Fma(widened[k][v], query, sums[q][k]);
            }
          }
        }
      }
      for (int q = 0; q < kCount; ++q) {
        for (int k = 0; k < kKeys; ++k) Simd::Store(products[q][key + k].v, sums[q][k]);
      }
    }
    for (int q = 0; q < kCount; ++q) {
      F lanes[kKvPageTokens];
      for (int k = 0; k < kKvPageTokens; ++k) lanes[k] = Simd::Load(products[q][k].v);
      Simd::Store(scores[q * kSegmentVectors].v,
                  Simd::Mul(Simd::FoldAll(lanes), Simd::Set(*scale)));
    }
  }

  // Adds the values of a page to the sums of kCount queries, for the kColumns vectors of columns
  // from `column` on. `weights` and `sums` point to the first query's, at the page and the column.
  template <class Element, int kCount, int kColumns>
  [[gnu::always_inline]] static void AddColumns(const PageRows<Element>& page, int column,
                                                const float* weights, bool first, int state_lanes,
                                                Lanes* sums) {
    F tile[kCount][kColumns];
    for (int q = 0; q < kCount; ++q) {
      for (int c = 0; c < kColumns; ++c) {
        tile[q][c] = first ? Simd::Zero() : Simd::Load(sums[q * state_lanes + c].v);
      }
    }
    for (int i = 0; i < page.count; ++i) {
      if (column == 0) page.PrefetchRow(i, (state_lanes - 1) * kLanes);
      F columns[kColumns];
      for (int c = 0; c < kColumns; c += Element::kVectors) {
        page.Widen(i, column + c * kLanes, columns + c);
      }
      for (int q = 0; q < kCount; ++q) {
        const F weight = Simd::Set(weights[q * kAttentionSegment + i]);
        for (int c = 0; c < kColumns; ++c) tile[q][c] = Simd::Fma(columns[c], weight, tile[q][c]);
      }
    }
    for (int q = 0; q < kCount; ++q) {
      for (int c = 0; c < kColumns; ++c) Simd::Store(sums[q * state_lanes + c].v, tile[q][c]);
    }
  }

  // AddColumns for all columns. `first`: the sums begin with this page.
  template <class Element, int kCount>
  [[gnu::noinline]] static void AddValues(const PageRows<Element>& page, const float* weights,
                                          bool first, int state_lanes, Lanes* sums) {
    constexpr int kLeast = Element::kVectors;
    constexpr int kColumns = kLeast > Simd::kRowVectors ? kLeast : Simd::kRowVectors;
    const int vectors = state_lanes - 1;
    int c = 0;
    for (; c + kColumns <= vectors; c += kColumns) {
      AddColumns<Element, kCount, kColumns>(page, c * kLanes, weights, first, state_lanes,
                                            sums + c);
    }
    for (; c < vectors; c += kLeast) {
      AddColumns<Element, kCount, kLeast>(page, c * kLanes, weights, first, state_lanes, sums + c);
    }
  }

  // Calls work.template operator()<n>(first) for the queries of a group, n of them at a time.
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
    const int position = args.sequence->first_position;
    const int start = args.segment * kAttentionSegment;
    const int begin = Greatest(0, operands.rule.FirstKey(position) - start);
    const int count = Least(kAttentionSegment, position + 1 - start);
    // The first key of the first page, and the keys of whole pages.
    const int first = begin / kKvPageTokens * kKvPageTokens;
    const int pages = (count + kKvPageTokens - 1) / kKvPageTokens * kKvPageTokens;
    const float* queries =
        operands.queries.Row(args.sequence->first_row) + args.first_head * group * head_dim;
    Lanes* states =
        args.states + static_cast<size_t>(args.segment - args.first_segment) * args.segment_stride;
    const auto page_at = [&](int key) __attribute__((always_inline)) {
      return KvPageAt<Element>(cache, *args.sequence, start + key, args.first_head);
    };
    for (int key = first; key < count; key += kKvPageTokens) {
      const KvPage<Element> page = page_at(key);
      const int ahead = key + kPrefetchPages * kKvPageTokens;
      // The first pages of values are prefetched with the last pages of keys.
      PageRows<Element> rows = {page.keys,
                                ahead < pages
                                    ? page_at(ahead).keys
                                    : page_at(first + (ahead - pages) % (pages - first)).values,
                                Least(kKvPageTokens, count - key)};
      for (int head = 0; head < args.head_count; ++head) {
        ForQueries(
            group, [&]<int kCount>(int query) __attribute__((always_inline)) {
              const int index = head * group + query;
              ScorePage<Element, kCount>(rows, queries + index * head_dim, head_dim,
                                         &operands.rule.scale,
                                         args.scores + index * kSegmentVectors + key / kLanes);
            });
        rows.NextHead(head_dim);
      }
    }
    for (int query = 0; query < args.head_count * group; ++query) {
      const Result result =
          Softmax<Simd>::Exponentials(args.scores + query * kSegmentVectors, begin, count);
      Lanes& last = states[query * state_lanes + state_lanes - 1];
      last.v[0] = result.max;
      last.v[1] = result.sum;
    }
    for (int key = first; key < count; key += kKvPageTokens) {
      const KvPage<Element> page = page_at(key);
      const int ahead = key + kPrefetchPages * kKvPageTokens;
      const int skipped = Greatest(0, begin - key);
      PageRows<Element> rows = {page.values.From(skipped),
                                page_at(ahead < pages ? ahead : key).values,
                                Least(kKvPageTokens, count - key) - skipped};
      for (int head = 0; head < args.head_count; ++head) {
        ForQueries(
            group, [&]<int kCount>(int query) __attribute__((always_inline)) {
              const int index = head * group + query;
              const Lanes* weights = args.scores + index * kSegmentVectors + key / kLanes;
              AddValues<Element, kCount>(rows, weights->v + skipped, key == first, state_lanes,
                                         states + index * state_lanes);
            });
        rows.NextHead(head_dim);
      }
    }
  }

  static void Run(const RowAttentionArgs& args) {
    WithKvElement<Simd>(args.operands.cache.dtype, [&]<class Element>() { RunAs<Element>(args); });
  }

  // Merges the `segments` segments of the row, and writes its contexts.
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
      Softmax<Simd>::Finish(operands.cache, operands.Sink(args.first_head * group + query), state,
                            out + query * head_dim);
    }
  }
};

}  // namespace baton
