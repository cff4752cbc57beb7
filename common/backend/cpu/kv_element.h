// Rows of the KV cache to and from floats: widened exactly, stored rounded to nearest even.
#pragma once

#include <cstdint>
#include <cstring>

#include "common/backend/tensor.h"
#include "common/base/float_types.h"

namespace baton {

[[gnu::always_inline]] inline void WidenKvRow(KvDtype dtype, const uint8_t* row, int count,
                                              float* out) {
  const auto* halves = reinterpret_cast<const uint16_t*>(row);
  switch (dtype) {
    case KvDtype::kF32:
      std::memcpy(out, row, static_cast<size_t>(count) * sizeof(float));
      return;
    case KvDtype::kF16:
      for (int i = 0; i < count; ++i) out[i] = F16ToF32(halves[i]);
      return;
    case KvDtype::kBf16:
      for (int i = 0; i < count; ++i) out[i] = Bf16ToF32(halves[i]);
      return;
  }
}

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
