// A head of K or V as the quantised KV types store it, computed in double from the definition in
// common/backend/kv_codes.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "common/backend/tensor.h"

namespace baton {

// The value of an E4M3 code, from the definition of the format. REQUIRES: `code` is not a NaN.
inline double ValueOfE4m3(int code) {
  const int exponent = code >> 3 & 15;
  const int mantissa = code & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return code >= 0x80 ? -magnitude : magnitude;
}

// The E4M3 code nearest to `x`, ties to even. Values above 448 become 448.
inline uint8_t NearestE4m3(double x) {
  const double magnitude = std::min(std::abs(x), 448.0);
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  exponent = std::max(exponent - 1, -6);
  // The magnitude in units of the last place: 8 or more are normal, and 16 carry into the exponent.
  const int units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 3 - exponent)));
  const int code = units < 8 ? units : (exponent + 6) * 8 + units;
  return static_cast<uint8_t>(std::signbit(x) ? code | 0x80 : code);
}

struct StoredHead {
  std::vector<uint8_t> codes;  // [head_dim]
  float scale = 0;
  std::vector<float> values;  // [head_dim] values of the codes
};

// Stores one head. REQUIRES: IsQuantised(dtype); all elements are finite and below 2^127.
inline StoredHead StoreHead(KvType dtype, const float* x, int head_dim) {
  const float largest_code = dtype == KvType::kInt8 ? 127 : 448;
  float most = 0;
  for (int i = 0; i < head_dim; ++i) most = std::max(most, std::abs(x[i]));
  StoredHead head;
  const bool zero = most < largest_code * std::numeric_limits<float>::min();
  if (!zero) head.scale = most / largest_code;
  for (int i = 0; i < head_dim; ++i) {
    const float quotient = zero ? std::copysign(0.0f, x[i]) : x[i] / head.scale;
    double code_value = 0;
    if (dtype == KvType::kInt8) {
      const int code = static_cast<int>(std::nearbyint(quotient));
      head.codes.push_back(static_cast<uint8_t>(code));
      code_value = code;
    } else {
      head.codes.push_back(NearestE4m3(quotient));
      code_value = ValueOfE4m3(head.codes.back());
    }
    head.values.push_back(static_cast<float>(code_value) * head.scale);
  }
  return head;
}

// Stores all heads of a token's K or V at their place in the cache. Returns the values of the
// codes.
inline std::vector<float> StoreHeads(const KvPartShape& shape, const float* x, uint8_t* row,
                                     uint8_t* scales) {
  std::vector<float> values;
  for (int i = 0; i < shape.kv_heads; ++i) {
    const StoredHead head = StoreHead(shape.dtype, x + i * shape.head_dim, shape.head_dim);
    std::copy(head.codes.begin(), head.codes.end(), row + i * shape.head_dim);
    std::memcpy(scales + i * 4, &head.scale, sizeof(head.scale));
    values.insert(values.end(), head.values.begin(), head.values.end());
  }
  return values;
}

}  // namespace baton
