// Random values of tests, the same in each run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace baton {

// Values of the standard normal distribution.
inline std::vector<float> NormalValues(size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}
inline std::vector<float> NormalValues(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  return NormalValues(count, random);
}

}  // namespace baton
