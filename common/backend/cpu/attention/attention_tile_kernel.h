// Attention of the rows of a tile, for one KV head: all queries share the keys and values of a
// segment. Only the sources of the kernel tables (kernels.h) include it.
//
// For the scores, vectors hold keys, and each dimension of a query meets them as a scalar; the 16
// lanes of the product are 16 vectors, which are folded as wholes. For the values, vectors hold
// columns.
#pragma once

#include "common/backend/cpu/attention/attention_kernel.h"

namespace baton {

template <class Simd>
struct AttentionTileKernel {
  using F = typename Simd::F;
  using Result = typename Softmax<Simd>::Result;

  // A panel's keys lie side by side: [kAttentionSegment / kPanelKeys][head_dim][kScoreVectors].
  static constexpr int kPanelKeys = Simd::kScoreVectors * kLanes;
  static_assert(kQueryBatch % Simd::kScoreQueries == 0 && kQueryBatch % Simd::kValueQueries == 0 &&
                kAttentionSegment % kPanelKeys == 0);
  static constexpr int kSegmentVectors = kAttentionSegment / kLanes;
  static constexpr int kValueKeys = 64;  // keys whose values all queries of a batch meet in turn

  // Queries of a batch. The queries that fill up the last tile repeat the last one; their results
  // are dropped.
  struct Batch {
    int first;  // index of the first among the task's queries, [row, query head of the group]
    int size;
    const float* queries[kQueryBatch];
    // The first key that each query sees, relative to the segment; ascending. If it is negative,
    // the query sees keys of an earlier segment.
    int firsts[kQueryBatch];
    int counts[kQueryBatch];  // keys of the segment up to each query's last; ascending
  };

  // The next queries from `first` on, before `end`, for the segment at `start`.
  static Batch MakeBatch(const TileAttentionArgs& args, int first, int start, int end) {
    const AttentionOperands& operands = args.operands;
    const int group = operands.group();
    const int head_dim = operands.cache.head_dim;
    const int first_position =
        args.sequence->first_position + args.first_row - args.sequence->first_row;
    Batch batch;
    batch.first = first;
    batch.size = Least(kQueryBatch, end - first);
    for (int i = 0; i < kQueryBatch; ++i) {
      const int query = first + Least(i, batch.size - 1);
      const int row = query / group;
      const int head = args.kv_head * group + query % group;
      batch.queries[i] = operands.queries.Row(args.first_row + row) + head * head_dim;
      const int position = first_position + row;
      batch.firsts[i] = operands.rule.FirstKey(position) - start;
      batch.counts[i] = Least(kAttentionSegment, position + 1 - start);
    }
    return batch;
  }

  // Widens K, in panels, and V of keys [begin, count) of the segment at `start`. REQUIRES: `begin`
  // is a multiple of kKvPageTokens.
  template <class Element>
  static void WidenSegment(const TileAttentionArgs& args, int start, int begin, int count) {
    constexpr int kVectors = Element::kVectors;
    const KvLayerView& cache = args.operands.cache;
    const int vectors = cache.head_dim / kLanes;
    for (int first = begin; first < count; first += kKvPageTokens) {
      const KvPage<Element> page =
          KvPageAt<Element>(cache, *args.sequence, start + first, args.kv_head);
      // All 16 rows of the page are read: a page is whole in its block. The scores of
      // unwritten keys are dropped.
      Lanes* panel = args.keys + (first / kPanelKeys * cache.head_dim) * Simd::kScoreVectors +
                     first % kPanelKeys / kLanes;
      for (int v = 0; v < vectors; v += kVectors) {
        F tiles[kVectors][kLanes];
        for (int i = 0; i < kKvPageTokens; ++i) {
          F widened[kVectors];
          page.keys.Widen(i, v * kLanes, widened);
          for (int n = 0; n < kVectors; ++n) tiles[n][i] = widened[n];
        }
        for (int n = 0; n < kVectors; ++n) {
          Simd::Transpose(tiles[n]);
          for (int i = 0; i < kLanes; ++i) {
            Simd::Store(panel[((v + n) * kLanes + i) * Simd::kScoreVectors].v, tiles[n][i]);
          }
        }
      }
      for (int i = 0; i < Least(kKvPageTokens, count - first); ++i) {
        for (int v = 0; v < vectors; v += kVectors) {
          F widened[kVectors];
          page.values.Widen(i, v * kLanes, widened);
          for (int n = 0; n < kVectors; ++n) {
            Simd::Store(args.values[(first + i) * vectors + v + n].v, widened[n]);
          }
        }
      }
    }
  }

  template <int kQueries>
  using Scores = F[kQueries][Simd::kScoreVectors];

  // Adds the products of dimension `d`.
  template <bool kFirst, int kQueries>
  [[gnu::always_inline]] static void AddProducts(const Lanes* panel, const float* const* queries,
                                                 int d, Scores<kQueries>& sums) {
    constexpr int kVectors = Simd::kScoreVectors;
    F keys[kVectors];
    for (int v = 0; v < kVectors; ++v) keys[v] = Simd::Load(panel[d * kVectors + v].v);
#pragma GCC unroll 8
    for (int q = 0; q < kQueries; ++q) {
      const F query = Simd::Set(queries[q][d]);
      for (int v = 0; v < kVectors; ++v) {
        // The first product alone differs from an FMA with +0 in the sign of a zero, which no
        // exponential shows.
        sums[q][v] = kFirst ? Simd::Mul(keys[v], query) : Simd::Fma(keys[v], query, sums[q][v]);
      }
    }
  }

  // The sum of the lanes kLane, kLane + kWidth, kLane + 2 kWidth, ... of the products: a node of
  // the tree over lanes, whose leaves are single lanes. In this order few partial sums live at a
  // time.
  template <int kLane, int kWidth, int kQueries>
  [[gnu::always_inline]] static void TreeNode(const Lanes* panel, const float* const* queries,
                                              int head_dim, Scores<kQueries>& sums) {
    if constexpr (kWidth == kLanes) {
      AddProducts<true, kQueries>(panel, queries, kLane, sums);
      for (int d = kLane + kLanes; d < head_dim; d += kLanes) {
        AddProducts<false, kQueries>(panel, queries, d, sums);
      }
    } else {
      TreeNode<kLane, 2 * kWidth, kQueries>(panel, queries, head_dim, sums);
      Scores<kQueries> other;
      TreeNode<kLane + kWidth, 2 * kWidth, kQueries>(panel, queries, head_dim, other);
#pragma GCC unroll 8
      for (int q = 0; q < kQueries; ++q) {
        for (int v = 0; v < Simd::kScoreVectors; ++v) {
          sums[q][v] = Simd::Add(sums[q][v], other[q][v]);
        }
      }
    }
  }

  // Computes the scores of a panel's keys. `scores` points to the first query's, at the panel's
  // keys.
  template <int kQueries>
  [[gnu::noinline]] static void ScorePanel(const Lanes* panel, const float* const* queries,
                                           int head_dim, float scale, Lanes* scores) {
    Scores<kQueries> sums;
    TreeNode<0, 1, kQueries>(panel, queries, head_dim, sums);
#pragma GCC unroll 8
    for (int q = 0; q < kQueries; ++q) {
      for (int v = 0; v < Simd::kScoreVectors; ++v) {
        Simd::Store(scores[q * kSegmentVectors + v].v, Simd::Mul(sums[q][v], Simd::Set(scale)));
      }
    }
  }

  static void ScoreBatch(const TileAttentionArgs& args, const Batch& batch, int count) {
    constexpr int kQueries = Simd::kScoreQueries;
    const int head_dim = args.operands.cache.head_dim;
    const float scale = args.operands.rule.scale;
    const int first = Greatest(0, batch.firsts[0]);
    for (int key = first / kPanelKeys * kPanelKeys; key < count; key += kPanelKeys) {
      const Lanes* panel = args.keys + key / kLanes * head_dim;
      for (int q = 0; q < batch.size; q += kQueries) {
        if (key >= batch.counts[q + kQueries - 1] || key + kPanelKeys <= batch.firsts[q]) continue;
        ScorePanel<kQueries>(panel, batch.queries + q, head_dim, scale,
                             args.scores + q * kSegmentVectors + key / kLanes);
      }
    }
  }

  struct Keys {
    int begin;
    int end;
    bool first;  // the sums begin with these keys
  };

  // Adds the values of `keys` to the sums of kQueries queries, for kColumns vectors of columns. Each
  // query sees the first `counts` keys. `values` points to key 0 and the first column, `weights`
  // and `sums` to the first query's.
  template <int kQueries, int kColumns>
  [[gnu::always_inline]] static void AddValues(const Lanes* values, int vectors,
                                               const Lanes* weights, const int* counts, Keys keys,
                                               Lanes* sums) {
    F tile[kQueries][kColumns];
#pragma GCC unroll 8
    for (int q = 0; q < kQueries; ++q) {
      for (int c = 0; c < kColumns; ++c) {
        tile[q][c] = keys.first ? Simd::Zero() : Simd::Load(sums[q * vectors + c].v);
      }
    }
    const int common = Least(keys.end, counts[0]);
    const float* p = weights->v;
    for (int i = keys.begin; i < common; ++i) {
      const Lanes* row = values + i * vectors;
      F columns[kColumns];
      for (int c = 0; c < kColumns; ++c) columns[c] = Simd::Load(row[c].v);
#pragma GCC unroll 8
      for (int q = 0; q < kQueries; ++q) {
        const F weight = Simd::Set(p[q * kAttentionSegment + i]);
        for (int c = 0; c < kColumns; ++c) tile[q][c] = Simd::Fma(columns[c], weight, tile[q][c]);
      }
    }
#pragma GCC unroll 8
    for (int q = 0; q < kQueries; ++q) {
      for (int i = Greatest(common, keys.begin); i < Least(keys.end, counts[q]); ++i) {
        const F weight = Simd::Set(p[q * kAttentionSegment + i]);
        for (int c = 0; c < kColumns; ++c) {
          tile[q][c] = Simd::Fma(Simd::Load(values[i * vectors + c].v), weight, tile[q][c]);
        }
      }
      for (int c = 0; c < kColumns; ++c) Simd::Store(sums[q * vectors + c].v, tile[q][c]);
    }
  }

  // AddValues for all columns of kQueries queries of the batch, from query q on.
  template <int kQueries>
  [[gnu::noinline]] static void AddRows(const TileAttentionArgs& args, const Batch& batch, int q,
                                        Keys keys) {
    constexpr int kColumns = Simd::kValueVectors;
    const int vectors = args.operands.cache.head_dim / kLanes;
    const Lanes* weights = args.scores + q * kSegmentVectors;
    Lanes* sums = args.sums + q * vectors;
    int c = 0;
    for (; c + kColumns <= vectors; c += kColumns) {
      AddValues<kQueries, kColumns>(args.values + c, vectors, weights, batch.counts + q, keys,
                                    sums + c);
    }
    for (; c < vectors; ++c) {
      AddValues<kQueries, 1>(args.values + c, vectors, weights, batch.counts + q, keys, sums + c);
    }
  }

  static void SumValues(const TileAttentionArgs& args, const Batch& batch, int count) {
    constexpr int kQueries = Simd::kValueQueries;
    const int* firsts = batch.firsts;
    const int first_block = Greatest(0, firsts[0]) / kValueKeys * kValueKeys;
    for (int begin = first_block; begin < count; begin += kValueKeys) {
      const int end = Least(begin + kValueKeys, count);
      for (int q = 0; q < batch.size; q += kQueries) {
        if (end <= firsts[q]) continue;
        const int common = firsts[q + kQueries - 1];  // from here on all queries see the keys
        if (common <= begin) {
          AddRows<kQueries>(args, batch, q, {begin, end, begin == 0 || begin == firsts[q]});
          continue;
        }
        for (int i = q; i < q + kQueries; ++i) {
          AddRows<1>(
              args, batch, i,
              {Greatest(begin, firsts[i]), Least(common, end), begin == 0 || begin <= firsts[i]});
        }
        if (common < end) AddRows<kQueries>(args, batch, q, {common, end, false});
      }
    }
  }

  static void AttendBatch(const TileAttentionArgs& args, const Batch& batch) {
    const int vectors = args.operands.cache.head_dim / kLanes;
    const int count = batch.counts[batch.size - 1];
    ScoreBatch(args, batch, count);
    Result results[kQueryBatch];
    for (int q = 0; q < batch.size; ++q) {
      results[q] = Softmax<Simd>::Exponentials(args.scores + q * kSegmentVectors,
                                               Greatest(0, batch.firsts[q]), batch.counts[q]);
    }
    SumValues(args, batch, count);
    for (int q = 0; q < batch.size; ++q) {
      const Lanes* sums = args.sums + q * vectors;
      Lanes* state = args.states + (batch.first + q) * (vectors + 1);
      if (batch.firsts[q] >= 0) {
        Softmax<Simd>::Begin(results[q], sums, vectors, state);
      } else {
        Softmax<Simd>::Merge(results[q], sums, vectors, state);
      }
    }
  }

  template <class Element>
  static void RunAs(const TileAttentionArgs& args) {
    const AttentionOperands& operands = args.operands;
    const int head_dim = operands.cache.head_dim;
    const int group = operands.group();
    const int queries = args.row_count * group;
    const int first_position =
        args.sequence->first_position + args.first_row - args.sequence->first_row;
    const int end = first_position + args.row_count;
    const int first_page = operands.rule.FirstKey(first_position) / kKvPageTokens * kKvPageTokens;
    for (int start = first_page / kAttentionSegment * kAttentionSegment; start < end;
         start += kAttentionSegment) {
      WidenSegment<Element>(args, start, Greatest(0, first_page - start),
                            Least(kAttentionSegment, end - start));
      // Rows before the segment see none of its keys, nor do rows whose windows lie behind it.
      const int first_row = Greatest(0, start - first_position);
      int end_row = args.row_count;
      while (operands.rule.FirstKey(first_position + end_row - 1) >= start + kAttentionSegment) {
        --end_row;
      }
      for (int query = first_row * group; query < end_row * group; query += kQueryBatch) {
        AttendBatch(args, MakeBatch(args, query, start, end_row * group));
      }
    }
    const int vectors = head_dim / kLanes;
    for (int query = 0; query < queries; ++query) {
      const int head = args.kv_head * group + query % group;
      Softmax<Simd>::Finish(operands.cache, operands.Sink(head),
                            args.states + query * (vectors + 1),
                            operands.out.Row(args.first_row + query / group) + head * head_dim);
    }
  }

  static void Run(const TileAttentionArgs& args) {
    WithKvElement<Simd>(args.operands.cache.dtype, [&]<class Element>() { RunAs<Element>(args); });
  }
};

}  // namespace baton
