// Sixteen virtual lanes: the fixed order of every floating-point reduction, whatever the width of
// the registers.
//
// A reduction over index i adds into lane i mod 16, ascending, then folds the lanes by the tree +8,
// +4, +2, +1. Loops over the lanes vectorise; fusions are written out, because the compiler may
// make none (-ffp-contract=off).
#pragma once

#include <cstring>

namespace baton {

inline constexpr int kLanes = 16;

struct alignas(64) Lanes {
  float v[kLanes];
};

[[gnu::always_inline]] inline Lanes ZeroLanes() {
  Lanes lanes;
  for (int l = 0; l < kLanes; ++l) lanes.v[l] = 0;
  return lanes;
}

// sum += a * b, by lanes, fused.
[[gnu::always_inline]] inline void FusedAdd(const float* a, const float* b, Lanes& sum) {
  for (int l = 0; l < kLanes; ++l) sum.v[l] = __builtin_fmaf(a[l], b[l], sum.v[l]);
}

[[gnu::always_inline]] inline float FoldLanes(const Lanes& in) {
  Lanes lanes = in;
  for (int l = 0; l < 8; ++l) lanes.v[l] += lanes.v[l + 8];
  for (int l = 0; l < 4; ++l) lanes.v[l] += lanes.v[l + 4];
  for (int l = 0; l < 2; ++l) lanes.v[l] += lanes.v[l + 2];
  return lanes.v[0] + lanes.v[1];
}

// The dot product of two vectors of any length.
[[gnu::always_inline]] inline float DotLanes(const float* a, const float* b, int count) {
  Lanes sum = ZeroLanes();
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) FusedAdd(a + i, b + i, sum);
  for (int l = 0; i + l < count; ++l) sum.v[l] = __builtin_fmaf(a[i + l], b[i + l], sum.v[l]);
  return FoldLanes(sum);
}

}  // namespace baton
