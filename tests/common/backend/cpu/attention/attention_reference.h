// What attention must give: its specification bit for bit, and its definition in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/backend/exact_math.h"
#include "tests/common/backend/cpu/attention/attention_fixture.h"
#include "tests/support/same_bytes.h"
#include "tests/support/stored_head.h"

namespace baton {

inline float Fold(const float (&in)[16]) {
  float lanes[16];
  std::copy_n(in, 16, lanes);
  for (const int width : {8, 4, 2, 1}) {
    for (int l = 0; l < width; ++l) lanes[l] += lanes[l + width];
  }
  return lanes[0];
}

// The first key that the query of `token` sees.
inline int FirstVisible(const AttentionRule& rule, int token) {
  return rule.window == 0 ? 0 : std::max(0, token + 1 - rule.window);
}

// The specification of attention.h, word by word. The queries of a cache of rotated heads are taken
// as rotated ones.
inline std::vector<float> Contexts(const AttentionShape& shape, AttentionSequence& sequence,
                                   int token, int head, const AttentionRule& rule) {
  const int kv_head = head / (shape.heads / shape.kv_heads);
  const size_t head_dim = static_cast<size_t>(shape.head_dim);
  const int first_key = FirstVisible(rule, token);
  std::vector<float> running(head_dim);
  float running_max = 0;
  float running_sum = 0;
  const auto merge = [&](float max, float sum, const std::vector<float>& sums) {
    const float both = std::max(running_max, max);
    const float old_scale = ExpF(running_max - both);
    const float new_scale = ExpF(max - both);
    for (size_t d = 0; d < head_dim; ++d) {
      running[d] = std::fma(sums[d], new_scale, running[d] * old_scale);
    }
    running_sum = std::fma(sum, new_scale, running_sum * old_scale);
    running_max = both;
  };
  for (int start = first_key / 256 * 256; start <= token; start += 256) {
    const int begin = std::max(start, first_key);
    const int end = std::min(start + 256, token + 1);
    std::vector<float> p;
    for (int key = begin; key < end; ++key) {
      float lanes[16] = {};
      for (int d = 0; d < shape.head_dim; ++d) {
        lanes[d % 16] = std::fma(sequence.StoredKey(key, kv_head)[d],
                                 sequence.Query(token, head)[d], lanes[d % 16]);
      }
      p.push_back(Fold(lanes) * rule.scale);
    }
    const float max = *std::max_element(p.begin(), p.end());
    float lanes[16] = {};
    std::vector<float> sums(head_dim);
    for (size_t i = 0; i < p.size(); ++i) {
      p[i] = ExpF(p[i] - max);
      const int key = begin + static_cast<int>(i);
      lanes[key % 16] += p[i];
      const float* value = sequence.StoredValue(key, kv_head);
      for (size_t d = 0; d < head_dim; ++d) sums[d] = std::fma(value[d], p[i], sums[d]);
    }
    if (start <= first_key) {
      running = sums;
      running_max = max;
      running_sum = Fold(lanes);
    } else {
      merge(max, Fold(lanes), sums);
    }
  }
  if (rule.sinks != nullptr) merge(rule.sinks[head], 1, std::vector<float>(head_dim));
  for (float& x : running) x /= running_sum;
  return IsRotated(shape.dtype) ? RotatedHead(running.data(), shape.head_dim) : running;
}

// The definition of attention in double.
inline std::vector<double> ExactContexts(const AttentionShape& shape, AttentionSequence& sequence,
                                         int token, int head, const AttentionRule& rule) {
  const int kv_head = head / (shape.heads / shape.kv_heads);
  std::vector<double> contexts(static_cast<size_t>(shape.head_dim));
  std::vector<double> scores;
  for (int key = FirstVisible(rule, token); key <= token; ++key) {
    double score = 0;
    for (int d = 0; d < shape.head_dim; ++d) {
      score += double{sequence.Query(token, head)[d]} * sequence.StoredKey(key, kv_head)[d];
    }
    scores.push_back(score * rule.scale);
  }
  double max = *std::max_element(scores.begin(), scores.end());
  if (rule.sinks != nullptr) max = std::max(max, double{rule.sinks[head]});
  double sum = rule.sinks == nullptr ? 0 : std::exp(rule.sinks[head] - max);
  for (size_t i = 0; i < scores.size(); ++i) {
    const double p = std::exp(scores[i] - max);
    sum += p;
    const int key = FirstVisible(rule, token) + static_cast<int>(i);
    for (size_t d = 0; d < contexts.size(); ++d) {
      contexts[d] += p * sequence.StoredValue(key, kv_head)[d];
    }
  }
  for (double& x : contexts) x /= sum;
  return IsRotated(shape.dtype) ? RotatedHead(contexts.data(), shape.head_dim) : contexts;
}

}  // namespace baton
