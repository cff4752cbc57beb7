#include "common/gguf/quantise.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/float_types.h"

namespace baton {
namespace {

void StoreScale(float scale, uint8_t* block) {
  const uint16_t half = F32ToF16(scale);
  std::memcpy(block, &half, sizeof(half));
}

// 0 for a scale of 0, whose codes do not matter. That of a scale below 2^-128 is infinite, and so
// are the products with it; their codes are 0, as the scale itself is in F16.
float Inverse(float scale) { return scale == 0 ? 0 : 1.0f / scale; }

}  // namespace

void QuantiseQ8_0(const float* weights, uint8_t* block) {
  float largest = 0;
  for (int i = 0; i < kQuantisedBlock; ++i) largest = std::max(largest, std::fabs(weights[i]));
  const float scale = largest / 127;
  const float inverse = Inverse(scale);
  StoreScale(scale, block);
  for (int i = 0; i < kQuantisedBlock; ++i) {
    const float code = weights[i] * inverse;
    block[2 + i] = static_cast<uint8_t>(std::isfinite(code) ? static_cast<int8_t>(std::lround(code))
                                                            : int8_t{0});
  }
}

void QuantiseQ4_0(const float* weights, uint8_t* block) {
  float extreme = weights[0];
  for (int i = 1; i < kQuantisedBlock; ++i) {
    if (std::fabs(weights[i]) > std::fabs(extreme)) extreme = weights[i];
  }
  const float scale = extreme / -8;
  const float inverse = Inverse(scale);
  StoreScale(scale, block);
  const auto code = [&](int i) {
    const float shifted = weights[i] * inverse + 8.5f;
    return std::isfinite(shifted) ? std::min(15, static_cast<int>(shifted)) : 0;
  };
  for (int i = 0; i < kQuantisedBlock / 2; ++i) {
    block[2 + i] = static_cast<uint8_t>(code(i) | code(i + kQuantisedBlock / 2) << 4);
  }
}

}  // namespace baton
