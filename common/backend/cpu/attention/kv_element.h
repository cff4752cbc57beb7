// Elements of the KV cache, for kernels: they are widened to vectors of sixteen floats, and stored
// rounded to nearest even. Widening is exact but for int8 and fp8 (kv_codes.h), whose product of
// code and scale is rounded. Elements of int4 (kv_int4.h) are rotated before they are stored, and
// widened as they were stored.
#pragma once

#include <cstdint>
#include <cstring>

#include "common/backend/cpu/simd/kv_int4_kernel.h"
#include "common/backend/cpu/simd/lanes.h"
#include "common/backend/kv_codes.h"
#include "common/backend/tensor.h"
#include "common/base/float_types.h"

namespace baton {

// The element types have
//   kType     the KvType
//   kVectors  how many vectors are widened at once
//   Widen     widens kVectors vectors of a head, from element `d` on, a multiple of their lanes.
//             `head` and `scales` point to the head's first element and first scale.
template <class Simd, KvType kDtype>
struct KvElement;

template <class Simd>
struct KvElement<Simd, KvType::kF32> {
  static constexpr KvType kType = KvType::kF32;
  static constexpr int kVectors = 1;
  [[gnu::always_inline]] static void Widen(const uint8_t* head, const uint8_t* /*scales*/, int d,
                                           typename Simd::F* to) {
    *to = Simd::Load(reinterpret_cast<const float*>(head) + d);
  }
};

template <class Simd>
struct KvElement<Simd, KvType::kF16> {
  static constexpr KvType kType = KvType::kF16;
  static constexpr int kVectors = 1;
  [[gnu::always_inline]] static void Widen(const uint8_t* head, const uint8_t* /*scales*/, int d,
                                           typename Simd::F* to) {
    *to = Simd::LoadF16(reinterpret_cast<const uint16_t*>(head) + d);
  }
};

template <class Simd>
struct KvElement<Simd, KvType::kBf16> {
  static constexpr KvType kType = KvType::kBf16;
  static constexpr int kVectors = 1;
  [[gnu::always_inline]] static void Widen(const uint8_t* head, const uint8_t* /*scales*/, int d,
                                           typename Simd::F* to) {
    *to = Simd::LoadBf16(reinterpret_cast<const uint16_t*>(head) + d);
  }
};

template <class Simd>
struct KvElement<Simd, KvType::kInt8> {
  static constexpr KvType kType = KvType::kInt8;
  static constexpr int kVectors = 1;
  [[gnu::always_inline]] static void Widen(const uint8_t* head, const uint8_t* scales, int d,
                                           typename Simd::F* to) {
    const auto codes = Simd::LoadS8(reinterpret_cast<const int8_t*>(head) + d);
    *to = Simd::Mul(codes, Simd::Set(*reinterpret_cast<const float*>(scales)));
  }
};

template <class Simd>
struct KvElement<Simd, KvType::kFp8> {
  static constexpr KvType kType = KvType::kFp8;
  static constexpr int kVectors = 1;
  [[gnu::always_inline]] static void Widen(const uint8_t* head, const uint8_t* scales, int d,
                                           typename Simd::F* to) {
    Lanes lanes;
    for (int l = 0; l < kLanes; ++l) lanes.v[l] = KvFp8{head[d + l]}.Value();
    *to = Simd::Mul(Simd::Load(lanes.v), Simd::Set(*reinterpret_cast<const float*>(scales)));
  }
};

template <class Simd>
struct KvElement<Simd, KvType::kInt4> {
  static constexpr KvType kType = KvType::kInt4;
  static constexpr int kVectors = kKvGroup / kLanes;
  [[gnu::always_inline]] static void Widen(const uint8_t* head, const uint8_t* scales, int d,
                                           typename Simd::F* to) {
    KvInt4Kernel<Simd>::LoadGroup(head + d / 2, scales + d / kKvGroup * 2, to[0], to[1]);
  }
};

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
    case KvType::kInt4:
      return run.template operator()<KvElement<Simd, KvType::kInt4>>();
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

// Stores the K or V row of a token, and its scales if the type has them. `values` [kv_heads *
// head_dim].
template <class Simd>
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
    case KvType::kInt4:
      for (int head = 0; head < shape.kv_heads; ++head) {
        KvInt4Kernel<Simd>::StoreHead(shape.head_dim, values, row, scales);
        values += shape.head_dim;
        row += shape.head_bytes();
        scales += shape.head_scale_bytes();
      }
      return;
  }
}

}  // namespace baton
