// The only source of chance in a simulation: everything follows from its seed.
#pragma once

#include <cstdint>

namespace baton {

// A bijection that spreads every input bit over all output bits.
inline uint64_t Mix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

class SimRandom {
 public:
  explicit SimRandom(uint64_t seed) : state_(Mix64(seed)) {}

  uint64_t Next() { return Mix64(state_++); }
  // REQUIRES: low <= high.
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Next() % static_cast<uint64_t>(high - low + 1));
  }
  bool Chance(int per_mille) { return static_cast<int>(Next() % 1000) < per_mille; }

 private:
  uint64_t state_;
};

}  // namespace baton
