// The Simd type of AVX2 with FMA and F16C: sixteen lanes are two registers. It uses AVX-VNNI where
// the source file is compiled for it. simd_portable.h describes what a Simd type offers; the
// results are the same bits.
//
// Only a source file compiled for this instruction set may include this header, and nothing else
// may stand in such a file (kernels.h).
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace baton {

struct Avx2 {
  struct F {
    __m256 low, high;
  };
  struct I {
    __m256i low, high;
  };
  using Bytes = I;

  static constexpr int kTileGroups = 1;
  static constexpr int kDirectTileRows = 4;
  static constexpr int kTileRows = 4;
  static constexpr int kFloatTileRows = 6;
  static constexpr int kScoreQueries = 4;
  static constexpr int kScoreVectors = 1;
  static constexpr int kValueQueries = 3;
  static constexpr int kValueVectors = 2;
  static constexpr int kRowKeys = 1;
  static constexpr int kRowVectors = 2;

  [[gnu::always_inline]] static F Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  [[gnu::always_inline]] static F Set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  [[gnu::always_inline]] static F Load(const float* x) {
    return {_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)};
  }
  [[gnu::always_inline]] static F LoadF16(const uint16_t* x) {
    return {_mm256_cvtph_ps(Load128(x)), _mm256_cvtph_ps(Load128(x + 8))};
  }
  [[gnu::always_inline]] static F LoadBf16(const uint16_t* x) {
    const auto widen = [](__m128i halves) __attribute__((always_inline)) {
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
    };
    return {widen(Load128(x)), widen(Load128(x + 8))};
  }
  [[gnu::always_inline]] static F LoadU8(const uint8_t* x) {
    return FromInt({_mm256_cvtepu8_epi32(Load64(x)), _mm256_cvtepu8_epi32(Load64(x + 8))});
  }
  [[gnu::always_inline]] static F LoadS8(const int8_t* x) {
    return FromInt({_mm256_cvtepi8_epi32(Load64(x)), _mm256_cvtepi8_epi32(Load64(x + 8))});
  }
  [[gnu::always_inline]] static void Store(float* x, F a) {
    _mm256_storeu_ps(x, a.low);
    _mm256_storeu_ps(x + 8, a.high);
  }
  [[gnu::always_inline]] static F Add(F a, F b) {
    return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
  }
  [[gnu::always_inline]] static F Mul(F a, F b) {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
  }
  [[gnu::always_inline]] static F Fma(F a, F b, F c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  [[gnu::always_inline]] static F Sub(F a, F b) {
    return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
  }
  [[gnu::always_inline]] static F Div(F a, F b) {
    return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
  }
  [[gnu::always_inline]] static F Max(F a, F b) {
    return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
  }
  [[gnu::always_inline]] static F Min(F a, F b) {
    return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
  }
  [[gnu::always_inline]] static F ScaleByPowerOfTwo(F a, F n) {
    return {ScaleHalf(a.low, n.low), ScaleHalf(a.high, n.high)};
  }
  [[gnu::always_inline]] static void Transpose(F (&x)[16]) {
    __m256 corner[2][2][8];  // [vectors from 8i on][lanes from 8j on]
    for (int i = 0; i < 8; ++i) {
      corner[0][0][i] = x[i].low;
      corner[0][1][i] = x[i].high;
      corner[1][0][i] = x[8 + i].low;
      corner[1][1][i] = x[8 + i].high;
    }
    Transpose8(corner[0][0]);
    Transpose8(corner[0][1]);
    Transpose8(corner[1][0]);
    Transpose8(corner[1][1]);
    for (int i = 0; i < 8; ++i) {
      x[i] = {corner[0][0][i], corner[1][0][i]};
      x[8 + i] = {corner[0][1][i], corner[1][1][i]};
    }
  }
  [[gnu::always_inline]] static F FoldAll(const F (&x)[16]) { return {Fold8(x), Fold8(x + 8)}; }
  [[gnu::always_inline]] static F FromInt(I a) {
    return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)};
  }
  [[gnu::always_inline]] static F MaxMagnitude(F a, F b) {
    return {_mm256_castsi256_ps(_mm256_max_epu32(Magnitude(a.low), Magnitude(b.low))),
            _mm256_castsi256_ps(_mm256_max_epu32(Magnitude(a.high), Magnitude(b.high)))};
  }
  [[gnu::always_inline]] static I Round(F a) {
    return {_mm256_cvtps_epi32(a.low), _mm256_cvtps_epi32(a.high)};
  }
  [[gnu::always_inline]] static void StoreNarrow(int8_t* x, I low, I high) {
    // Packing stays within 128-bit lanes; the permutation puts groups of four back in order.
    const __m256i words_low = _mm256_packs_epi32(low.low, low.high);
    const __m256i words_high = _mm256_packs_epi32(high.low, high.high);
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(words_low, words_high),
                                                      _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(x), bytes);
  }

  [[gnu::always_inline]] static void StoreS4(uint8_t* x, I low, I high) {
    const __m256i mask = _mm256_set1_epi32(15);
    const auto pair = [mask](__m256i a, __m256i b) __attribute__((always_inline)) {
      return _mm256_or_si256(_mm256_and_si256(a, mask),
                             _mm256_slli_epi32(_mm256_and_si256(b, mask), 4));
    };
    // Packing stays within 128-bit lanes; the permutation puts groups of four back in order.
    const __m256i words = _mm256_packus_epi32(pair(low.low, high.low), pair(low.high, high.high));
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(words, words),
                                                      _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(x), _mm256_castsi256_si128(bytes));
  }
  [[gnu::always_inline]] static void LoadS4(const uint8_t* x, uint16_t scale, F& low, F& high) {
    const I bytes = {_mm256_cvtepi8_epi32(Load64(x)), _mm256_cvtepi8_epi32(Load64(x + 8))};
    const __m256 scales = _mm256_cvtph_ps(_mm_set1_epi16(static_cast<int16_t>(scale)));
    // The lower halves stay where they are after the shift, 2^28 times too large.
    const __m256 low_scales = _mm256_mul_ps(scales, _mm256_set1_ps(0x1p-28f));
    low = Mul(FromInt(ShiftLeft<28>(bytes)), {low_scales, low_scales});
    high = Mul(FromInt({_mm256_srai_epi32(bytes.low, 4), _mm256_srai_epi32(bytes.high, 4)}),
               {scales, scales});
  }

  template <int kDistance>
  [[gnu::always_inline]] static F Swap(F a) {
    if constexpr (kDistance == 8) return {a.high, a.low};
    return {SwapHalf<kDistance>(a.low), SwapHalf<kDistance>(a.high)};
  }
  [[gnu::always_inline]] static F Evens(F a) {
    return {_mm256_moveldup_ps(a.low), _mm256_moveldup_ps(a.high)};
  }
  [[gnu::always_inline]] static F Odds(F a) {
    return {_mm256_movehdup_ps(a.low), _mm256_movehdup_ps(a.high)};
  }
  [[gnu::always_inline]] static float Fold(F a) {
    const __m256 eight = _mm256_add_ps(a.low, a.high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  [[gnu::always_inline]] static float Largest(F a) {
    const __m256 eight = _mm256_max_ps(a.low, a.high);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  [[gnu::always_inline]] static I SetInt(int32_t x) {
    return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
  }
  template <int kShift>
  [[gnu::always_inline]] static I ShiftLeft(I a) {
    return {_mm256_slli_epi32(a.low, kShift), _mm256_slli_epi32(a.high, kShift)};
  }

  [[gnu::always_inline]] static Bytes LoadBytes(const uint8_t* x) {
    const auto* registers = reinterpret_cast<const __m256i*>(x);
    return {_mm256_loadu_si256(registers), _mm256_loadu_si256(registers + 1)};
  }
  [[gnu::always_inline]] static void StoreBytes(uint8_t* x, Bytes a) {
    auto* registers = reinterpret_cast<__m256i*>(x);
    _mm256_storeu_si256(registers, a.low);
    _mm256_storeu_si256(registers + 1, a.high);
  }
  [[gnu::always_inline]] static Bytes SetQuad(const int8_t* x) {
    int32_t quad;
    std::memcpy(&quad, x, sizeof(quad));
    return SetInt(quad);
  }
  template <int kShift, int kMask>
  [[gnu::always_inline]] static Bytes ShiftMask(Bytes a) {
    const __m256i mask = _mm256_set1_epi8(kMask);
    return {_mm256_and_si256(Shift<kShift>(a.low), mask),
            _mm256_and_si256(Shift<kShift>(a.high), mask)};
  }
  template <int kShift, int kMask>
  [[gnu::always_inline]] static Bytes OrShiftMask(Bytes low, Bytes a) {
    const Bytes bits = ShiftMask<kShift, kMask>(a);
    return {_mm256_or_si256(low.low, bits.low), _mm256_or_si256(low.high, bits.high)};
  }
  [[gnu::always_inline]] static Bytes Lookup(const uint8_t (&table)[16], Bytes a) {
    const __m256i rows = _mm256_broadcastsi128_si256(Load128(table));
    return {_mm256_shuffle_epi8(rows, a.low), _mm256_shuffle_epi8(rows, a.high)};
  }
  template <bool kWide>
  [[gnu::always_inline]] static I Dot(I sum, Bytes codes, Bytes quad) {
    return {DotHalf<kWide>(sum.low, codes.low, quad.low),
            DotHalf<kWide>(sum.high, codes.high, quad.high)};
  }

 private:
  template <int kDistance>
  [[gnu::always_inline]] static __m256 SwapHalf(__m256 a) {
    if constexpr (kDistance == 4) return _mm256_permute2f128_ps(a, a, 0x01);
    return _mm256_permute_ps(a, kDistance == 2 ? 0x4e : 0xb1);
  }
  [[gnu::always_inline]] static __m256i Magnitude(__m256 a) {
    return _mm256_and_si256(_mm256_castps_si256(a), _mm256_set1_epi32(0x7fffffff));
  }
  [[gnu::always_inline]] static __m128i Load128(const void* x) {
    return _mm_loadu_si128(static_cast<const __m128i*>(x));
  }
  [[gnu::always_inline]] static __m128i Load64(const void* x) {
    return _mm_loadl_epi64(static_cast<const __m128i*>(x));
  }
  // a * 2^n in two factors: one alone would leave the range of normal numbers.
  [[gnu::always_inline]] static __m256 ScaleHalf(__m256 a, __m256 n) {
    const __m256i exponent = _mm256_cvtps_epi32(n);
    const __m256i half = _mm256_srai_epi32(exponent, 1);
    const auto power = [](__m256i e) __attribute__((always_inline)) {
      return _mm256_castsi256_ps(
          _mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(127)), 23));
    };
    return _mm256_mul_ps(_mm256_mul_ps(a, power(half)), power(_mm256_sub_epi32(exponent, half)));
  }
  // Two lanes of `a`, then two of `b`, in each half.
  template <int kPick>
  [[gnu::always_inline]] static __m256 Shuffle(__m256 a, __m256 b) {
    return _mm256_shuffle_ps(a, b, kPick);
  }
  [[gnu::always_inline]] static void Transpose8(__m256 (&x)[8]) {
    __m256 pairs[8];
    for (int i = 0; i < 8; i += 2) {
      pairs[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
      pairs[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
    __m256 quads[8];  // [i + c]: lanes c and 4 + c of vectors i to i + 3
    for (int i = 0; i < 8; i += 4) {
      quads[i] = Shuffle<0x44>(pairs[i], pairs[i + 2]);
      quads[i + 1] = Shuffle<0xee>(pairs[i], pairs[i + 2]);
      quads[i + 2] = Shuffle<0x44>(pairs[i + 1], pairs[i + 3]);
      quads[i + 3] = Shuffle<0xee>(pairs[i + 1], pairs[i + 3]);
    }
    for (int c = 0; c < 4; ++c) {
      x[c] = _mm256_permute2f128_ps(quads[c], quads[4 + c], 0x20);
      x[4 + c] = _mm256_permute2f128_ps(quads[c], quads[4 + c], 0x31);
    }
  }
  // FoldAll of eight vectors.
  [[gnu::always_inline]] static __m256 Fold8(const F* x) {
    __m256 eights[8];
    for (int i = 0; i < 8; ++i) eights[i] = _mm256_add_ps(x[i].low, x[i].high);
    __m256 fours[4];
    for (int i = 0; i < 4; ++i) {
      fours[i] = _mm256_add_ps(_mm256_permute2f128_ps(eights[i], eights[4 + i], 0x20),
                               _mm256_permute2f128_ps(eights[i], eights[4 + i], 0x31));
    }
    __m256 twos[2];
    for (int i = 0; i < 2; ++i) {
      twos[i] = _mm256_add_ps(Shuffle<0x44>(fours[2 * i], fours[2 * i + 1]),
                              Shuffle<0xee>(fours[2 * i], fours[2 * i + 1]));
    }
    return _mm256_add_ps(Shuffle<0x88>(twos[0], twos[1]), Shuffle<0xdd>(twos[0], twos[1]));
  }
  template <int kShift>
  [[gnu::always_inline]] static __m256i Shift(__m256i a) {
    if constexpr (kShift > 0) {
      return _mm256_srli_epi16(a, kShift);
    } else if constexpr (kShift < 0) {
      return _mm256_slli_epi16(a, -kShift);
    } else {
      return a;
    }
  }
  // maddubs adds two products in 16 bits and saturates. Codes over 127 are therefore split into two
  // numbers, neither of which can reach the bound.
  template <bool kWide>
  [[gnu::always_inline]] static __m256i DotHalf(__m256i sum, __m256i codes, __m256i quad) {
    const __m256i ones = _mm256_set1_epi16(1);
    if constexpr (kWide) {
      const __m256i low = _mm256_and_si256(codes, _mm256_set1_epi8(0x7f));
      const __m256i top = _mm256_andnot_si256(_mm256_set1_epi8(0x7f), codes);
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(top, quad), ones));
      codes = low;
    }
    return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(codes, quad), ones));
  }
};

#ifdef __AVXVNNI__
struct Avx2Vnni : Avx2 {
  template <bool kWide>
  [[gnu::always_inline]] static I Dot(I sum, Bytes codes, Bytes quad) {
    return {_mm256_dpbusd_avx_epi32(sum.low, codes.low, quad.low),
            _mm256_dpbusd_avx_epi32(sum.high, codes.high, quad.high)};
  }
};
#endif

}  // namespace baton
