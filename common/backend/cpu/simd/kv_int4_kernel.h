// The heads of an int4 cache as kv_int4.h defines them, in vectors. Only the sources of the kernel
// tables (kernels.h) include it, and code that runs it on Portable through RunOn (isa.h).
#pragma once

#include <cstdint>
#include <cstring>

#include "common/backend/cpu/simd/lanes.h"
#include "common/base/float_types.h"
#include "common/base/kv_int4.h"

namespace baton {

template <class Simd>
struct KvInt4Kernel {
  using F = typename Simd::F;
  using I = typename Simd::I;

  // One stage within a vector: a lane becomes its sum with the lane at the distance, or the
  // difference if it is the second one of the two.
  template <int kDistance>
  [[gnu::always_inline]] static F Butterfly(F x) {
    Lanes signs;
    for (int l = 0; l < kLanes; ++l) signs.v[l] = (l & kDistance) != 0 ? -1.0f : 1.0f;
    return Simd::Add(Simd::Mul(x, Simd::Load(signs.v)), Simd::template Swap<kDistance>(x));
  }

  // Rotates a head in place; twice is the identity but for rounding. REQUIRES: head_dim is a
  // multiple of kLanes.
  [[gnu::always_inline]] static void RotateHead(int head_dim, float* head) {
    const int block = RotationBlock(head_dim);
    const F factor = Simd::Set(RotationFactor(block));
    for (int i = 0; i < head_dim; i += kLanes) {
      F x = Simd::Mul(Simd::Load(head + i), factor);
      x = Butterfly<1>(x);
      x = Butterfly<2>(x);
      x = Butterfly<4>(x);
      x = Butterfly<8>(x);
      Simd::Store(head + i, x);
    }
    for (int distance = kLanes; distance < block; distance *= 2) {
      for (int first = 0; first < head_dim; first += 2 * distance) {
        for (int i = first; i < first + distance; i += kLanes) {
          const F a = Simd::Load(head + i);
          const F b = Simd::Load(head + i + distance);
          Simd::Store(head + i, Simd::Add(a, b));
          Simd::Store(head + i + distance, Simd::Sub(a, b));
        }
      }
    }
  }

  // Codes of half a group.
  [[gnu::always_inline]] static I Codes(F x, F inverse) {
    const F quotient = Simd::Mul(x, inverse);
    return Simd::Round(
        Simd::Min(Simd::Max(quotient, Simd::Set(kLeastInt4)), Simd::Set(kLargestInt4)));
  }
  [[gnu::always_inline]] static F SquaredError(F x, I codes, F scale) {
    const F error = Simd::Sub(x, Simd::Mul(Simd::FromInt(codes), scale));
    return Simd::Mul(error, error);
  }

  // Stores a rotated group, all of it finite. False if its scale is too large for a float16.
  [[gnu::always_inline]] static bool StoreGroup(const float* group, uint8_t* codes,
                                                uint8_t* scale) {
    const F a = Simd::Load(group);
    const F b = Simd::Load(group + kLanes);
    const F negative = Simd::Set(-1);
    const float largest = Simd::Largest(Simd::Max(a, b));
    const float least = -Simd::Largest(Simd::Max(Simd::Mul(a, negative), Simd::Mul(b, negative)));
    const float extreme = largest > -least ? largest : least;
    float least_error = 0;
    for (int i = 0; i < kInt4Candidates; ++i) {
      const uint16_t bits = Int4Scale(extreme, i);
      const float value = F16ToF32(bits);
      const F inverse = Simd::Set(Int4Inverse(value));
      const I low = Codes(a, inverse);
      const I high = Codes(b, inverse);
      const float error = Simd::Fold(Simd::Add(SquaredError(a, low, Simd::Set(value)),
                                               SquaredError(b, high, Simd::Set(value))));
      if (i > 0 && !(error < least_error)) continue;
      least_error = error;
      Simd::StoreS4(codes, low, high);
      std::memcpy(scale, &bits, sizeof(bits));
    }
    return MagnitudeBits(extreme) <= MagnitudeBits(kLargestInt4Extreme);
  }

  // Rotates and stores a head. False if the type cannot represent it: it has an infinity or a
  // NaN, or a scale would be too large.
  [[gnu::always_inline]] static bool StoreHead(int head_dim, const float* head, uint8_t* codes,
                                               uint8_t* scales) {
    int32_t most = 0;
    for (int i = 0; i < head_dim; ++i) {
      const int32_t magnitude = MagnitudeBits(head[i]);
      most = magnitude > most ? magnitude : most;
    }
    constexpr int32_t kInfinity = 0x7f800000;
    if (most >= kInfinity) {
      std::memset(codes, 0, static_cast<size_t>(head_dim) / 2);
      for (int group = 0; group < head_dim / kKvGroup; ++group) {
        std::memcpy(scales + 2 * group, &kNanInt4Scale, sizeof(kNanInt4Scale));
      }
      return false;
    }
    alignas(64) float rotated[kMostInt4HeadDim];
    const F limit = Simd::Set(kRotationLimit);
    for (int i = 0; i < head_dim; i += kLanes) {
      const F x = Simd::Max(Simd::Load(head + i), Simd::Set(-kRotationLimit));
      Simd::Store(rotated + i, Simd::Min(x, limit));
    }
    RotateHead(head_dim, rotated);
    bool sayable = true;
    for (int i = 0; i < head_dim; i += kKvGroup) {
      sayable = StoreGroup(rotated + i, codes + i / 2, scales + i / 16) && sayable;
    }
    return sayable;
  }

  // Widens the elements of a group, still rotated.
  [[gnu::always_inline]] static void LoadGroup(const uint8_t* codes, const uint8_t* scale, F& low,
                                               F& high) {
    uint16_t bits;
    std::memcpy(&bits, scale, sizeof(bits));
    Simd::LoadS4(codes, bits, low, high);
  }

  // Widens a head and rotates it back.
  [[gnu::always_inline]] static void LoadHead(int head_dim, const uint8_t* codes,
                                              const uint8_t* scales, float* head) {
    for (int i = 0; i < head_dim; i += kKvGroup) {
      F low;
      F high;
      LoadGroup(codes + i / 2, scales + i / 16, low, high);
      Simd::Store(head + i, low);
      Simd::Store(head + i + kLanes, high);
    }
    RotateHead(head_dim, head);
  }
};

}  // namespace baton
