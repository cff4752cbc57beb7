// Sixteen virtual lanes: they fix the order of every floating-point reduction, whatever the
// width of the registers.
//
// A reduction over index i adds into lane i mod 16, i ascending. Then it folds the lanes by the
// tree +8, +4, +2, +1.
#pragma once

#include <cstring>

namespace baton {

inline constexpr int kLanes = 16;

struct alignas(64) Lanes {
  float v[kLanes];
};

[[gnu::always_inline]] inline float FoldLanes(const Lanes& in) {
  Lanes lanes = in;
  for (int l = 0; l < 8; ++l) lanes.v[l] += lanes.v[l + 8];
  for (int l = 0; l < 4; ++l) lanes.v[l] += lanes.v[l + 4];
  for (int l = 0; l < 2; ++l) lanes.v[l] += lanes.v[l + 2];
  return lanes.v[0] + lanes.v[1];
}

}  // namespace baton
