// Elements of the KV cache: widened exactly to sixteen lanes of floats, stored rounded to nearest
// even. For kernels.
#pragma once

#include <cstdint>
#include <cstring>

#include "common/backend/tensor.h"
#include "common/base/float_types.h"

namespace baton {

template <class Simd, KvDtype kDtype>
struct KvElement;

template <class Simd>
struct KvElement<Simd, KvDtype::kF32> {
  using Stored = float;
  [[gnu::always_inline]] static auto Load(const float* x) { return Simd::Load(x); }
};

template <class Simd>
struct KvElement<Simd, KvDtype::kF16> {
  using Stored = uint16_t;
  [[gnu::always_inline]] static auto Load(const uint16_t* x) { return Simd::LoadF16(x); }
};

template <class Simd>
struct KvElement<Simd, KvDtype::kBf16> {
  using Stored = uint16_t;
  [[gnu::always_inline]] static auto Load(const uint16_t* x) { return Simd::LoadBf16(x); }
};

[[gnu::always_inline]] inline void StoreKvRow(KvDtype dtype, const float* values, int count,
                                              uint8_t* row) {
  auto* halves = reinterpret_cast<uint16_t*>(row);
  switch (dtype) {
    case KvDtype::kF32:
      std::memcpy(row, values, static_cast<size_t>(count) * sizeof(float));
      return;
    case KvDtype::kF16:
      for (int i = 0; i < count; ++i) halves[i] = F32ToF16(values[i]);
      return;
    case KvDtype::kBf16:
      for (int i = 0; i < count; ++i) halves[i] = F32ToBf16(values[i]);
      return;
  }
}

}  // namespace baton
