// Elements of the KV cache, for kernels: they are widened to sixteen lanes of floats, and stored
// rounded to nearest even. Widening is exact. Codes (kv_codes.h) are widened without their scale;
// the product with the scale is rounded.
#pragma once

#include <cstdint>
#include <cstring>

#include "common/backend/cpu/simd/lanes.h"
#include "common/backend/kv_codes.h"
#include "common/backend/tensor.h"
#include "common/base/float_types.h"

namespace baton {

template <class Simd, KvType kDtype>
struct KvElement;

template <class Simd>
struct KvElement<Simd, KvType::kF32> {
  using Stored = float;
  [[gnu::always_inline]] static auto Load(const float* x) { return Simd::Load(x); }
};

template <class Simd>
struct KvElement<Simd, KvType::kF16> {
  using Stored = uint16_t;
  [[gnu::always_inline]] static auto Load(const uint16_t* x) { return Simd::LoadF16(x); }
};

template <class Simd>
struct KvElement<Simd, KvType::kBf16> {
  using Stored = uint16_t;
  [[gnu::always_inline]] static auto Load(const uint16_t* x) { return Simd::LoadBf16(x); }
};

template <class Simd>
struct KvElement<Simd, KvType::kInt8> {
  using Stored = KvInt8;
  [[gnu::always_inline]] static auto Load(const KvInt8* x) {
    return Simd::LoadS8(reinterpret_cast<const int8_t*>(x));
  }
};

template <class Simd>
struct KvElement<Simd, KvType::kFp8> {
  using Stored = KvFp8;
  [[gnu::always_inline]] static auto Load(const KvFp8* x) {
    Lanes lanes;
    for (int l = 0; l < kLanes; ++l) lanes.v[l] = x[l].Value();
    return Simd::Load(lanes.v);
  }
};

// Whether the KvElement is a code, which has a scale.
template <class Element>
inline constexpr bool kScaledElement = sizeof(typename Element::Stored) == 1;

// Calls run.template operator()<Element>() with the KvElement of `dtype`.
template <class Simd, class Run>
[[gnu::always_inline]] inline void WithKvElement(KvType dtype, const Run& run) {
  switch (dtype) {
    case KvType::kF32:
      return run.template operator()<KvElement<Simd, KvType::kF32>>();
    case KvType::kF16:
      return run.template operator()<KvElement<Simd, KvType::kF16>>();
    case KvType::kBf16:
      return run.template operator()<KvElement<Simd, KvType::kBf16>>();
    case KvType::kInt8:
      return run.template operator()<KvElement<Simd, KvType::kInt8>>();
    case KvType::kFp8:
      return run.template operator()<KvElement<Simd, KvType::kFp8>>();
  }
}

// Stores the codes and scales of `heads` heads. `values` [heads, head_dim].
template <class Code>
[[gnu::always_inline]] inline void StoreKvCodes(const float* values, int heads, int head_dim,
                                                uint8_t* row, uint8_t* scales) {
  for (int head = 0; head < heads; ++head) {
    int32_t most = 0;
    for (int i = 0; i < head_dim; ++i) {
      const int32_t magnitude = MagnitudeBits(values[i]);
      most = magnitude > most ? magnitude : most;
    }
    const float scale = KvScale<Code>(most);
    const float divisor = KvDivisor(scale);
    for (int i = 0; i < head_dim; ++i) row[i] = KvCode<Code>(values[i], divisor).bits;
    std::memcpy(scales, &scale, sizeof(scale));
    values += head_dim;
    row += head_dim;
    scales += sizeof(scale);
  }
}

// Stores the K or V row of a token, and its scales where the type has them. `values` [kv_heads *
// head_dim].
[[gnu::always_inline]] inline void StoreKvRow(const KvPartShape& shape, const float* values,
                                              uint8_t* row, uint8_t* scales) {
  auto* halves = reinterpret_cast<uint16_t*>(row);
  const int count = shape.kv_heads * shape.head_dim;
  switch (shape.dtype) {
    case KvType::kF32:
      std::memcpy(row, values, static_cast<size_t>(count) * sizeof(float));
      return;
    case KvType::kF16:
      for (int i = 0; i < count; ++i) halves[i] = F32ToF16(values[i]);
      return;
    case KvType::kBf16:
      for (int i = 0; i < count; ++i) halves[i] = F32ToBf16(values[i]);
      return;
    case KvType::kInt8:
      return StoreKvCodes<KvInt8>(values, shape.kv_heads, shape.head_dim, row, scales);
    case KvType::kFp8:
      return StoreKvCodes<KvFp8>(values, shape.kv_heads, shape.head_dim, row, scales);
  }
}

}  // namespace baton
