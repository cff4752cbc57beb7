// Numbers that look random and are the same each time: choices that no clock or random source may
// influence.
#pragma once

#include <cstdint>

namespace baton {

// A well mixed function of the two: the `draw`th number for `turn`.
inline uint64_t Spread(uint64_t turn, uint64_t draw) {
  uint64_t x = turn * 0x9E3779B97F4A7C15u + draw * 0xD1B54A32D192ED03u + 0x632BE59BD9B4E019u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace baton
