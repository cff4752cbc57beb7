// Code that both kernels of attention.h share. Only the sources of the kernel tables (kernels.h)
// include it.
#pragma once

#include <cstddef>

#include "common/backend/cpu/attention/attention.h"
#include "common/backend/cpu/attention/kv_element.h"
#include "common/backend/cpu/simd/exp_kernel.h"
#include "common/backend/cpu/simd/lanes.h"
#include "common/backend/exact_math.h"

namespace baton {

[[gnu::always_inline]] inline int Least(int a, int b) { return a < b ? a : b; }
[[gnu::always_inline]] inline int Greatest(int a, int b) { return a > b ? a : b; }

// The rows of keys, or of values, of one page at some KV head, and their scales if the type has
// them. The next token's lie `row_bytes` and `scale_bytes` further.
template <class Element>
struct KvRows {
  const uint8_t* rows;
  size_t row_bytes;
  const uint8_t* scales;
  size_t scale_bytes;

  [[gnu::always_inline]] const uint8_t* Row(int i) const {
    return rows + static_cast<size_t>(i) * row_bytes;
  }
  // Element::kVectors vectors of row i, from element `d` on.
  template <class F>
  [[gnu::always_inline]] void Widen(int i, int d, F* to) const {
    Element::Widen(Row(i), scales + static_cast<size_t>(i) * scale_bytes, d, to);
  }
  // Row i and those behind it.
  [[gnu::always_inline]] KvRows From(int i) const {
    return {Row(i), row_bytes, scales + static_cast<size_t>(i) * scale_bytes, scale_bytes};
  }
  [[gnu::always_inline]] void NextHead(int head_dim) {
    rows += KvHeadBytes(Element::kType, static_cast<size_t>(head_dim));
    scales += KvScaleBytes(Element::kType, static_cast<size_t>(head_dim));
  }
};

template <class Element>
struct KvPage {
  KvRows<Element> keys;
  KvRows<Element> values;
};

// The page of the sequence that begins at `position`. REQUIRES: a multiple of kKvPageTokens.
template <class Element>
[[gnu::always_inline]] inline KvPage<Element> KvPageAt(const KvLayerView& cache,
                                                       const BatchSequence& sequence, int position,
                                                       int kv_head) {
  const int32_t block = sequence.block_table[cache.TableIndex(position)];
  const int token = position % cache.block_size;
  const size_t heads = static_cast<size_t>(cache.kv_heads);
  const size_t head = static_cast<size_t>(kv_head);
  const size_t head_bytes = KvHeadBytes(Element::kType, static_cast<size_t>(cache.head_dim));
  const size_t scale_bytes = KvScaleBytes(Element::kType, static_cast<size_t>(cache.head_dim));
  const auto rows = [&](const uint8_t* row, const uint8_t* scales) __attribute__((always_inline))
                        ->KvRows<Element> {
    return {row + head * head_bytes, heads * head_bytes, scales + head * scale_bytes,
            heads * scale_bytes};
  };
  return {rows(cache.KeyRow(block, token), cache.KeyScales(block, token)),
          rows(cache.ValueRow(block, token), cache.ValueScales(block, token))};
}

template <class Simd>
struct Softmax {
  using F = typename Simd::F;

  struct Result {
    float max;
    float sum;
  };

  // Turns scores [begin, count) into their exponentials. `scores` has room up to a multiple of
  // kLanes. REQUIRES: begin < count.
  [[gnu::always_inline]] static Result Exponentials(Lanes* scores, int begin, int count) {
    const int first = static_cast<int>(static_cast<unsigned>(begin) / kLanes);
    const int vectors = (count + kLanes - 1) / kLanes;
    // The scores around the keys become -infinity, so that they add exactly nothing to the sum.
    for (int l = begin - first * kLanes; l > 0; --l) scores[first].v[l - 1] = -__builtin_inff();
    for (int l = count - (vectors - 1) * kLanes; l < kLanes; ++l) {
      scores[vectors - 1].v[l] = -__builtin_inff();
    }
    F highest = Simd::Load(scores[first].v);
    for (int i = first + 1; i < vectors; ++i) highest = Simd::Max(Simd::Load(scores[i].v), highest);
    const float max = Simd::Largest(highest);
    const F maxima = Simd::Set(max);
    F sums = Simd::Zero();
    for (int i = first; i < vectors; ++i) {
      const F p = ExpLanes<Simd>(Simd::Sub(Simd::Load(scores[i].v), maxima));
      Simd::Store(scores[i].v, p);
      sums = Simd::Add(sums, p);
    }
    return {max, Simd::Fold(sums)};
  }

  // Begins the running softmax O, M, L of a query with its first segment, whose O is `sums`.
  [[gnu::always_inline]] static void Begin(const Result& segment, const Lanes* sums, int vectors,
                                           Lanes* state) {
    for (int i = 0; i < vectors; ++i) Simd::Store(state[i].v, Simd::Load(sums[i].v));
    state[vectors].v[0] = segment.max;
    state[vectors].v[1] = segment.sum;
  }

  // Merges the next segment into the running softmax.
  [[gnu::always_inline]] static void Merge(const Result& segment, const Lanes* sums, int vectors,
                                           Lanes* state) {
    float& running_max = state[vectors].v[0];
    float& running_sum = state[vectors].v[1];
    const float max = segment.max > running_max ? segment.max : running_max;
    const float old_scale = ExpF(running_max - max);
    const float new_scale = ExpF(segment.max - max);
    const F old_scales = Simd::Set(old_scale);
    const F new_scales = Simd::Set(new_scale);
    for (int i = 0; i < vectors; ++i) {
      const F old = Simd::Mul(Simd::Load(state[i].v), old_scales);
      Simd::Store(state[i].v, Simd::Fma(Simd::Load(sums[i].v), new_scales, old));
    }
    running_sum = __builtin_fmaf(segment.sum, new_scale, running_sum * old_scale);
    running_max = max;
  }

  // Merges the head's sink, if it has one, and writes a query's context [cache.head_dim].
  [[gnu::always_inline]] static void Finish(const KvLayerView& cache, const float* sink,
                                            Lanes* state, float* out) {
    static constexpr Lanes kNoValues[kMaxHeadDim / kLanes] = {};
    const int vectors = cache.head_dim / kLanes;
    if (sink != nullptr) Merge({.max = *sink, .sum = 1}, kNoValues, vectors, state);
    const F sum = Simd::Set(state[vectors].v[1]);
    for (int i = 0; i < vectors; ++i) {
      Simd::Store(out + i * kLanes, Simd::Div(Simd::Load(state[i].v), sum));
    }
    if (IsRotated(cache.dtype)) KvInt4Kernel<Simd>::RotateHead(cache.head_dim, out);
  }
};

}  // namespace baton
