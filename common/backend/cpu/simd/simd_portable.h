// The Simd type of portable C++, and the description of what every Simd type offers.
//
// A Simd type has vectors F (16 floats), I (16 int32) and Bytes (64 bytes, four to a lane). Its
// operations are those of IEEE single precision, rounded to nearest even, and of two's complement;
// so all Simd types give the same bits.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/backend/cpu/simd/lanes.h"
#include "common/base/float_types.h"

namespace baton {

struct Portable {
  // The compiler's own vectors, which it keeps in whatever registers there are.
  using F [[gnu::vector_size(64)]] = float;
  using I [[gnu::vector_size(64)]] = int32_t;
  using Bytes [[gnu::vector_size(64)]] = uint8_t;

  // A product's tile: groups of 16 outputs, and rows of the input, that share registers.
  static constexpr int kTileGroups = 1;
  static constexpr int kDirectTileRows =
      2;                                    // rows that share weights in registers, without a panel
  static constexpr int kTileRows = 2;       // rows of a quantised product with a panel
  static constexpr int kFloatTileRows = 2;  // rows of a float product with a panel
  // Attention's tiles: queries, and vectors of keys (for scores) or of columns (for values).
  static constexpr int kScoreQueries = 1;
  static constexpr int kScoreVectors = 1;
  static constexpr int kValueQueries = 1;
  static constexpr int kValueVectors = 1;
  // Attention's tiles for a single row: keys (for scores), and vectors of columns (for values).
  static constexpr int kRowKeys = 1;
  static constexpr int kRowVectors = 1;

  [[gnu::always_inline]] static F Zero() { return F{}; }
  [[gnu::always_inline]] static F Set(float x) { return F{} + x; }
  [[gnu::always_inline]] static F Load(const float* x) {
    F a;
    std::memcpy(&a, x, sizeof(a));
    return a;
  }
  [[gnu::always_inline]] static F LoadF16(const uint16_t* x) {
    Lanes a;
    for (int l = 0; l < kLanes; ++l) a.v[l] = F16ToF32(x[l]);
    return Load(a.v);
  }
  [[gnu::always_inline]] static F LoadBf16(const uint16_t* x) {
    Lanes a;
    for (int l = 0; l < kLanes; ++l) a.v[l] = Bf16ToF32(x[l]);
    return Load(a.v);
  }
  [[gnu::always_inline]] static F LoadU8(const uint8_t* x) {
    Lanes a;
    for (int l = 0; l < kLanes; ++l) a.v[l] = static_cast<float>(x[l]);
    return Load(a.v);
  }
  [[gnu::always_inline]] static F LoadS8(const int8_t* x) {
    Lanes a;
    for (int l = 0; l < kLanes; ++l) a.v[l] = static_cast<float>(x[l]);
    return Load(a.v);
  }
  [[gnu::always_inline]] static void Store(float* x, F a) { std::memcpy(x, &a, sizeof(a)); }
  [[gnu::always_inline]] static F Add(F a, F b) { return a + b; }
  [[gnu::always_inline]] static F Mul(F a, F b) { return a * b; }
  // a * b + c, rounded once.
  [[gnu::always_inline]] static F Fma(F a, F b, F c) {
    Lanes x, y, z;
    Store(x.v, a);
    Store(y.v, b);
    Store(z.v, c);
    for (int l = 0; l < kLanes; ++l) z.v[l] = __builtin_fmaf(x.v[l], y.v[l], z.v[l]);
    return Load(z.v);
  }
  [[gnu::always_inline]] static F Sub(F a, F b) { return a - b; }
  [[gnu::always_inline]] static F Div(F a, F b) { return a / b; }
  // a > b ? a : b by lanes, so `b` if either is NaN. Min is a < b ? a : b.
  [[gnu::always_inline]] static F Max(F a, F b) { return a > b ? a : b; }
  [[gnu::always_inline]] static F Min(F a, F b) { return a < b ? a : b; }
  // a * 2^n, rounded once. REQUIRES: n is an integer in [-150, 128], |a| in [1/2, 2]; or a is NaN.
  [[gnu::always_inline]] static F ScaleByPowerOfTwo(F a, F n) {
    // The power is multiplied in two factors: one alone would leave the range of normal numbers.
    const I exponent = __builtin_convertvector(n, I);
    const I half = exponent >> 1;
    return a * (F)((half + 127) << 23) * (F)((exponent - half + 127) << 23);
  }
  // Lane j of vector i becomes lane i of vector j.
  [[gnu::always_inline]] static void Transpose(F (&x)[16]) {
    Lanes lanes[16];
    for (int i = 0; i < 16; ++i) Store(lanes[i].v, x[i]);
    for (int i = 0; i < 16; ++i) {
      Lanes column;
      for (int j = 0; j < 16; ++j) column.v[j] = lanes[j].v[i];
      x[i] = Load(column.v);
    }
  }
  // Lane i becomes lane i ^ kDistance, a power of two.
  template <int kDistance>
  [[gnu::always_inline]] static F Swap(F a) {
    constexpr int d = kDistance;
    return __builtin_shufflevector(a, a, 0 ^ d, 1 ^ d, 2 ^ d, 3 ^ d, 4 ^ d, 5 ^ d, 6 ^ d, 7 ^ d,
                                   8 ^ d, 9 ^ d, 10 ^ d, 11 ^ d, 12 ^ d, 13 ^ d, 14 ^ d, 15 ^ d);
  }
  // Lanes 2i and 2i + 1 become lane 2i. Odds makes them lane 2i + 1.
  [[gnu::always_inline]] static F Evens(F a) {
    for (int l = 0; l < kLanes; l += 2) a[l + 1] = a[l];
    return a;
  }
  [[gnu::always_inline]] static F Odds(F a) {
    for (int l = 0; l < kLanes; l += 2) a[l] = a[l + 1];
    return a;
  }
  // Folds the lanes as FoldLanes does.
  [[gnu::always_inline]] static float Fold(F a) {
    Lanes lanes;
    Store(lanes.v, a);
    return FoldLanes(lanes);
  }
  // The largest lane; any value if one is NaN.
  [[gnu::always_inline]] static float Largest(F a) {
    float largest = a[0];
    for (int l = 1; l < kLanes; ++l) largest = a[l] > largest ? a[l] : largest;
    return largest;
  }
  // Lane i is FoldLanes of x[i].
  [[gnu::always_inline]] static F FoldAll(const F (&x)[16]) {
    Lanes folded;
    for (int i = 0; i < 16; ++i) folded.v[i] = Fold(x[i]);
    return Load(folded.v);
  }
  [[gnu::always_inline]] static F FromInt(I a) { return __builtin_convertvector(a, F); }
  // The larger magnitude, by lanes; a NaN counts as larger than all.
  [[gnu::always_inline]] static F MaxMagnitude(F a, F b) {
    // The magnitudes are compared as integers, which orders non-negative floats.
    const I p = (I)a & 0x7fffffff;
    const I q = (I)b & 0x7fffffff;
    return (F)(p > q ? p : q);
  }
  // Stores the low four bits of `low` as the lower halves of 16 bytes, those of `high` as the upper
  // halves.
  [[gnu::always_inline]] static void StoreS4(uint8_t* x, I low, I high) {
    const I bytes = (low & 15) | (high << 4);
    for (int l = 0; l < kLanes; ++l) x[l] = static_cast<uint8_t>(bytes[l]);
  }
  // Loads what StoreS4 stored, as floats times the float16 `scale`.
  [[gnu::always_inline]] static void LoadS4(const uint8_t* x, uint16_t scale, F& low, F& high) {
    I bytes;
    for (int l = 0; l < kLanes; ++l) bytes[l] = static_cast<int8_t>(x[l]);
    const F scales = Set(F16ToF32(scale));
    low = FromInt(bytes << 28 >> 28) * scales;
    high = FromInt(bytes >> 4) * scales;
  }
  // The nearest integers, ties to even. REQUIRES: |a| <= 127; a NaN gives any integer.
  [[gnu::always_inline]] static I Round(F a) {
    constexpr float kRound = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
    return (I)(a + kRound) - std::bit_cast<int32_t>(kRound);
  }
  // Stores the low bytes of 16 integers, then of 16 more.
  [[gnu::always_inline]] static void StoreNarrow(int8_t* x, I low, I high) {
    for (int l = 0; l < kLanes; ++l) {
      x[l] = static_cast<int8_t>(low[l]);
      x[l + kLanes] = static_cast<int8_t>(high[l]);
    }
  }

  [[gnu::always_inline]] static I SetInt(int32_t x) { return I{} + x; }
  template <int kShift>
  [[gnu::always_inline]] static I ShiftLeft(I a) {
    return a << kShift;
  }

  [[gnu::always_inline]] static Bytes LoadBytes(const uint8_t* x) {
    Bytes a;
    std::memcpy(&a, x, sizeof(a));
    return a;
  }
  [[gnu::always_inline]] static void StoreBytes(uint8_t* x, Bytes a) {
    std::memcpy(x, &a, sizeof(a));
  }
  // A vector with the four bytes at `x` in every lane.
  [[gnu::always_inline]] static Bytes SetQuad(const int8_t* x) {
    int32_t quad;
    std::memcpy(&quad, x, sizeof(quad));
    return (Bytes)SetInt(quad);
  }
  // (a >> kShift) & kMask by bytes; a negative shift goes left. REQUIRES: the mask keeps only
  // bits of the same byte.
  template <int kShift, int kMask>
  [[gnu::always_inline]] static Bytes ShiftMask(Bytes a) {
    if constexpr (kShift >= 0) {
      return (a >> kShift) & static_cast<uint8_t>(kMask);
    } else {
      return (a << -kShift) & static_cast<uint8_t>(kMask);
    }
  }
  template <int kShift, int kMask>
  [[gnu::always_inline]] static Bytes OrShiftMask(Bytes low, Bytes a) {
    return low | ShiftMask<kShift, kMask>(a);
  }
  // table[a] by bytes. REQUIRES: the bytes of `a` are below 16.
  [[gnu::always_inline]] static Bytes Lookup(const uint8_t (&table)[16], Bytes a) {
    for (size_t i = 0; i < sizeof(a); ++i) a[i] = table[a[i]];
    return a;
  }
  // sum + the four products of unsigned `codes` and signed `quad`, by lanes. kWide: codes may be
  // over 127. REQUIRES: quad in [-127, 127].
  template <bool kWide>
  [[gnu::always_inline]] static I Dot(I sum, Bytes codes, Bytes quad) {
    using U [[gnu::vector_size(64)]] = uint32_t;
    const U c = (U)codes;
    const U q = (U)quad;
    for (int shift = 0; shift < 32; shift += 8) {
      sum += (I)((c >> shift) & 255) * ((I)(q << (24 - shift)) >> 24);
    }
    return sum;
  }
};

}  // namespace baton
