// A head of K or V as the quantised KV types store it, computed from the definitions in
// common/backend/kv_codes.h and kv_int4.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "common/backend/tensor.h"
#include "common/base/float_types.h"

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
  std::vector<uint8_t> codes;        // as they lie in a row
  std::vector<uint8_t> scale_bytes;  // as they lie among the scales
  float scale = 0;                   // int8 and fp8
  std::vector<float> values;         // [head_dim] what the codes stand for
  std::vector<float> stored;         // [head_dim] the same as attention sees it: int4 is rotated
};

// The rotation of common/base/kv_int4.h.
template <class Float>
std::vector<Float> RotatedHead(const Float* x, int head_dim) {
  std::vector<Float> head(x, x + head_dim);
  int block = 1;
  while (head_dim % (2 * block) == 0) block *= 2;
  const auto factor = static_cast<float>(1 / std::sqrt(static_cast<double>(block)));
  for (Float& element : head) element *= factor;
  for (int distance = 1; distance < block; distance *= 2) {
    for (int i = 0; i < head_dim; ++i) {
      if (i / distance % 2 != 0) continue;
      Float& a = head[static_cast<size_t>(i)];
      Float& b = head[static_cast<size_t>(i + distance)];
      const Float sum = a + b;
      b = a - b;
      a = sum;
    }
  }
  return head;
}

// The least bad way to store a rotated group of 32 elements.
struct StoredInt4Group {
  uint16_t scale = 0;  // as a float16
  int codes[32] = {};
  float error = 0;

  StoredInt4Group(const float* x, float divisor) {
    float extreme = 0;
    for (int i = 0; i < 32; ++i) {
      if (std::abs(x[i]) > std::abs(extreme) || x[i] == -std::abs(extreme)) extreme = x[i];
    }
    const float wanted = extreme * (-1.0f / divisor) + 0.0f;
    scale = F32ToF16(std::clamp(wanted, -65504.0f, 65504.0f));
    const float value = F16ToF32(scale);
    std::vector<float> squares;
    for (int i = 0; i < 32; ++i) {
      const float quotient = value == 0 ? 0 : x[i] * (1 / value);
      codes[i] = static_cast<int>(std::nearbyint(std::clamp(quotient, -8.0f, 7.0f)));
      const float difference = x[i] - static_cast<float>(codes[i]) * value;
      squares.push_back(difference * difference);
    }
    for (size_t width = 16; width > 0; width /= 2) {
      for (size_t i = 0; i < width; ++i) squares[i] += squares[i + width];
    }
    error = squares[0];
  }
};

// Stores one head as int4. REQUIRES: all elements are finite and at most 2^100.
inline StoredHead StoreInt4Head(const float* x, int head_dim) {
  StoredHead head;
  const std::vector<float> rotated = RotatedHead(x, head_dim);
  for (int first = 0; first < head_dim; first += 32) {
    StoredInt4Group best(&rotated[static_cast<size_t>(first)], 8);
    for (const float divisor : {7.5f, 8.5f, 9.0f}) {
      const StoredInt4Group other(&rotated[static_cast<size_t>(first)], divisor);
      if (other.error < best.error) best = other;
    }
    for (int i = 0; i < 16; ++i) {
      head.codes.push_back(
          static_cast<uint8_t>((best.codes[i] & 15) | (best.codes[i + 16] & 15) << 4));
    }
    for (const int code : best.codes) {
      head.stored.push_back(static_cast<float>(code) * F16ToF32(best.scale));
    }
    head.scale_bytes.push_back(static_cast<uint8_t>(best.scale));
    head.scale_bytes.push_back(static_cast<uint8_t>(best.scale >> 8));
  }
  head.values = RotatedHead(head.stored.data(), head_dim);
  return head;
}

// Stores one head. REQUIRES: IsQuantised(dtype); all elements are finite, and below 2^127 or, in
// int4, 2^100.
inline StoredHead StoreHead(KvType dtype, const float* x, int head_dim) {
  if (dtype == KvType::kInt4) return StoreInt4Head(x, head_dim);
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
  head.stored = head.values;
  head.scale_bytes.resize(sizeof(head.scale));
  std::memcpy(head.scale_bytes.data(), &head.scale, sizeof(head.scale));
  return head;
}

// What a stored head stands for. `codes` and `scales` are the head's own.
inline std::vector<float> LoadStoredHead(KvType dtype, const uint8_t* codes, const uint8_t* scales,
                                         int head_dim) {
  std::vector<float> values;
  for (int i = 0; i < head_dim; ++i) {
    if (dtype == KvType::kInt4) {
      uint16_t scale = 0;
      std::memcpy(&scale, scales + i / 32 * 2, sizeof(scale));
      const int byte = codes[i / 32 * 16 + i % 16];
      const int code = (i % 32 < 16 ? byte : byte >> 4) & 15;
      values.push_back(static_cast<float>(code < 8 ? code : code - 16) * F16ToF32(scale));
    } else {
      float scale = 0;
      std::memcpy(&scale, scales, sizeof(scale));
      const double code =
          dtype == KvType::kInt8 ? static_cast<int8_t>(codes[i]) : ValueOfE4m3(codes[i]);
      values.push_back(static_cast<float>(code) * scale);
    }
  }
  return dtype == KvType::kInt4 ? RotatedHead(values.data(), head_dim) : values;
}

// What a stored row of K or V stands for.
inline std::vector<float> LoadStoredHeads(const KvPartShape& shape, const uint8_t* row,
                                          const uint8_t* scales) {
  std::vector<float> values;
  for (int i = 0; i < shape.kv_heads; ++i) {
    const std::vector<float> head = LoadStoredHead(shape.dtype, row, scales, shape.head_dim);
    values.insert(values.end(), head.begin(), head.end());
    row += shape.head_bytes();
    scales += shape.head_scale_bytes();
  }
  return values;
}

// Stores all heads of a token's K or V at their place in the cache. Returns the values of the
// codes.
inline std::vector<float> StoreHeads(const KvPartShape& shape, const float* x, uint8_t* row,
                                     uint8_t* scales) {
  std::vector<float> values;
  for (int i = 0; i < shape.kv_heads; ++i) {
    const StoredHead head = StoreHead(shape.dtype, x + i * shape.head_dim, shape.head_dim);
    row = std::copy(head.codes.begin(), head.codes.end(), row);
    scales = std::copy(head.scale_bytes.begin(), head.scale_bytes.end(), scales);
    values.insert(values.end(), head.values.begin(), head.values.end());
  }
  return values;
}

}  // namespace baton
