// The Simd type of AVX-512 with VNNI: sixteen lanes are one register. simd_portable.h describes
// what a Simd type offers; the results of all three types are the same bits.
//
// Only a source file compiled for this instruction set may include this header, and nothing else
// may stand in such a file (kernels.h).
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace baton {

struct Avx512 {
  using F = __m512;
  using I = __m512i;
  using Bytes = __m512i;

  // Registers of a tile: 10 sums of integers, 10 of floats, 2 weights, 1 input; for floats 24 sums.
  static constexpr int kTileGroups = 2;
  static constexpr int kDirectTileRows = 8;
  static constexpr int kTileRows = 5;
  static constexpr int kFloatTileRows = 12;
  static constexpr int kScoreQueries = 6;
  static constexpr int kScoreVectors = 2;
  static constexpr int kValueQueries = 6;
  static constexpr int kValueVectors = 4;
  static constexpr int kRowKeys = 4;
  static constexpr int kRowVectors = 4;

  [[gnu::always_inline]] static F Zero() { return _mm512_setzero_ps(); }
  [[gnu::always_inline]] static F Set(float x) { return _mm512_set1_ps(x); }
  [[gnu::always_inline]] static F Load(const float* x) { return _mm512_loadu_ps(x); }
  [[gnu::always_inline]] static F LoadF16(const uint16_t* x) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
  }
  [[gnu::always_inline]] static F LoadBf16(const uint16_t* x) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
  [[gnu::always_inline]] static F LoadU8(const uint8_t* x) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
  }
  [[gnu::always_inline]] static F LoadS8(const int8_t* x) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
  }
  [[gnu::always_inline]] static void Store(float* x, F a) { _mm512_storeu_ps(x, a); }
  [[gnu::always_inline]] static F Add(F a, F b) { return _mm512_add_ps(a, b); }
  [[gnu::always_inline]] static F Mul(F a, F b) { return _mm512_mul_ps(a, b); }
  [[gnu::always_inline]] static F Fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  [[gnu::always_inline]] static F Sub(F a, F b) { return _mm512_sub_ps(a, b); }
  [[gnu::always_inline]] static F Div(F a, F b) { return _mm512_div_ps(a, b); }
  [[gnu::always_inline]] static F Max(F a, F b) { return _mm512_max_ps(a, b); }
  [[gnu::always_inline]] static F Min(F a, F b) { return _mm512_min_ps(a, b); }
  [[gnu::always_inline]] static F ScaleByPowerOfTwo(F a, F n) { return _mm512_scalef_ps(a, n); }
  [[gnu::always_inline]] static F FromInt(I a) { return _mm512_cvtepi32_ps(a); }
  [[gnu::always_inline]] static F MaxMagnitude(F a, F b) {
    const I mask = _mm512_set1_epi32(0x7fffffff);
    return _mm512_castsi512_ps(_mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(a), mask),
                                                _mm512_and_si512(_mm512_castps_si512(b), mask)));
  }
  [[gnu::always_inline]] static I Round(F a) { return _mm512_cvtps_epi32(a); }
  [[gnu::always_inline]] static void StoreNarrow(int8_t* x, I low, I high) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(x), _mm512_cvtepi32_epi8(low));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(x + 16), _mm512_cvtepi32_epi8(high));
  }

  [[gnu::always_inline]] static void Transpose(F (&x)[16]) {
    F pairs[16];
    for (int i = 0; i < 16; i += 2) {
      pairs[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
      pairs[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
    }
    F quads[16];  // [i + c]: in each quarter q, lane 4q + c of vectors i to i + 3
    for (int i = 0; i < 16; i += 4) {
      quads[i] = Shuffle<0x44>(pairs[i], pairs[i + 2]);
      quads[i + 1] = Shuffle<0xee>(pairs[i], pairs[i + 2]);
      quads[i + 2] = Shuffle<0x44>(pairs[i + 1], pairs[i + 3]);
      quads[i + 3] = Shuffle<0xee>(pairs[i + 1], pairs[i + 3]);
    }
    for (int c = 0; c < 4; ++c) {
      const F even_low = Quarters<0x88>(quads[c], quads[4 + c]);
      const F even_high = Quarters<0x88>(quads[8 + c], quads[12 + c]);
      const F odd_low = Quarters<0xdd>(quads[c], quads[4 + c]);
      const F odd_high = Quarters<0xdd>(quads[8 + c], quads[12 + c]);
      x[c] = Quarters<0x88>(even_low, even_high);
      x[4 + c] = Quarters<0x88>(odd_low, odd_high);
      x[8 + c] = Quarters<0xdd>(even_low, even_high);
      x[12 + c] = Quarters<0xdd>(odd_low, odd_high);
    }
  }
  [[gnu::always_inline]] static F FoldAll(const F (&x)[16]) {
    F eights[8];  // folded halves of vectors i and i + 4, or of i + 8 and i + 12
    for (int i = 0; i < 4; ++i) {
      eights[i] = AddHalves(x[i], x[4 + i]);
      eights[4 + i] = AddHalves(x[8 + i], x[12 + i]);
    }
    F fours[4];
    for (int i = 0; i < 4; ++i) {
      fours[i] =
          Add(Quarters<0x88>(eights[i], eights[4 + i]), Quarters<0xdd>(eights[i], eights[4 + i]));
    }
    F twos[2];
    for (int i = 0; i < 2; ++i) {
      twos[i] = Add(Shuffle<0x44>(fours[2 * i], fours[2 * i + 1]),
                    Shuffle<0xee>(fours[2 * i], fours[2 * i + 1]));
    }
    return Add(Shuffle<0x88>(twos[0], twos[1]), Shuffle<0xdd>(twos[0], twos[1]));
  }

  [[gnu::always_inline]] static void StoreS4(uint8_t* x, I low, I high) {
    const I bytes =
        _mm512_or_si512(_mm512_and_si512(low, _mm512_set1_epi32(15)), _mm512_slli_epi32(high, 4));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(x), _mm512_cvtepi32_epi8(bytes));
  }
  [[gnu::always_inline]] static void LoadS4(const uint8_t* x, uint16_t scale, F& low, F& high) {
    const F codes = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
    const F scales = _mm512_cvtph_ps(_mm256_set1_epi16(static_cast<int16_t>(scale)));
    const F values = Mul(codes, scales);
    // A lookup sees only the lowest four bits of a lane.
    const I bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
    low = _mm512_permutexvar_ps(bytes, values);
    high = _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), values);
  }

  template <int kDistance>
  [[gnu::always_inline]] static F Swap(F a) {
    if constexpr (kDistance >= 4) return Quarters < kDistance == 8 ? 0x4e : 0xb1 > (a, a);
    return _mm512_permute_ps(a, kDistance == 2 ? 0x4e : 0xb1);
  }
  [[gnu::always_inline]] static F Evens(F a) { return _mm512_moveldup_ps(a); }
  [[gnu::always_inline]] static F Odds(F a) { return _mm512_movehdup_ps(a); }
  [[gnu::always_inline]] static float Fold(F a) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  [[gnu::always_inline]] static float Largest(F a) {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  [[gnu::always_inline]] static I SetInt(int32_t x) { return _mm512_set1_epi32(x); }
  template <int kShift>
  [[gnu::always_inline]] static I ShiftLeft(I a) {
    return _mm512_slli_epi32(a, kShift);
  }

  [[gnu::always_inline]] static Bytes LoadBytes(const uint8_t* x) { return _mm512_loadu_si512(x); }
  [[gnu::always_inline]] static void StoreBytes(uint8_t* x, Bytes a) { _mm512_storeu_si512(x, a); }
  [[gnu::always_inline]] static Bytes SetQuad(const int8_t* x) {
    int32_t quad;
    std::memcpy(&quad, x, sizeof(quad));
    return _mm512_set1_epi32(quad);
  }
  template <int kShift, int kMask>
  [[gnu::always_inline]] static Bytes ShiftMask(Bytes a) {
    return _mm512_and_si512(Shift<kShift>(a), _mm512_set1_epi8(kMask));
  }
  template <int kShift, int kMask>
  [[gnu::always_inline]] static Bytes OrShiftMask(Bytes low, Bytes a) {
    constexpr int kOrAnd = 0xf8;  // low | (a & mask)
    return _mm512_ternarylogic_epi64(low, Shift<kShift>(a), _mm512_set1_epi8(kMask), kOrAnd);
  }
  [[gnu::always_inline]] static Bytes Lookup(const uint8_t (&table)[16], Bytes a) {
    const __m128i row = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(row), a);
  }
  template <bool kWide>
  [[gnu::always_inline]] static I Dot(I sum, Bytes codes, Bytes quad) {
    return _mm512_dpbusd_epi32(sum, codes, quad);
  }

 private:
  // Two lanes of `a`, then two of `b`, in each quarter. Quarters does so with whole quarters.
  template <int kPick>
  [[gnu::always_inline]] static F Shuffle(F a, F b) {
    return _mm512_shuffle_ps(a, b, kPick);
  }
  template <int kPick>
  [[gnu::always_inline]] static F Quarters(F a, F b) {
    return _mm512_shuffle_f32x4(a, b, kPick);
  }
  // The sum of the halves of `a`, then that of `b`.
  [[gnu::always_inline]] static F AddHalves(F a, F b) {
    return Add(_mm512_mask_blend_ps(0xff00, a, b), Quarters<0x4e>(a, b));
  }
  template <int kShift>
  [[gnu::always_inline]] static Bytes Shift(Bytes a) {
    if constexpr (kShift > 0) {
      return _mm512_srli_epi16(a, kShift);
    } else if constexpr (kShift < 0) {
      return _mm512_slli_epi16(a, -kShift);
    } else {
      return a;
    }
  }
};

}  // namespace baton
