// Elementary functions whose bits are the same on every CPU and in every build: libm's differ. Of
// libm only sqrt and fma are used, which are exact by definition. REQUIRES: rounding to nearest, no
// FTZ/DAZ.
//
// ExpF is for kernels: inlined, without branches, so that a loop over it vectorises; constexpr, so
// that device code may call it. The functions of double are for tables and sampling: their error is
// a few units in the last place, far below what a float can show.
#pragma once

#include <bit>
#include <cstdint>

namespace baton {

// e^x within 1 ulp, subnormal results within 1 of their units; above 88.73 infinity, below -103.98
// zero; NaN for NaN.
[[gnu::always_inline]] constexpr float ExpF(float x) {
  constexpr float kRound = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  constexpr float kLog2E = 0x1.715476p+0f;
  constexpr float kLn2High = 0x1.62e43p-1f;
  constexpr float kLn2Low = -0x1.05c61p-29f;
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const float shifted = __builtin_fmaf(x, kLog2E, kRound);
  const float n = shifted - kRound;
  const int32_t exponent =
      static_cast<int32_t>(std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound));
  const float r = __builtin_fmaf(-n, kLn2Low, __builtin_fmaf(-n, kLn2High, x));
  float p = 1.0f / 5040;
  p = __builtin_fmaf(p, r, 1.0f / 720);
  p = __builtin_fmaf(p, r, 1.0f / 120);
  p = __builtin_fmaf(p, r, 1.0f / 24);
  p = __builtin_fmaf(p, r, 1.0f / 6);
  p = __builtin_fmaf(p, r, 0.5f);
  p = __builtin_fmaf(p, r, 1.0f);
  p = __builtin_fmaf(p, r, 1.0f);
  // 2^exponent in two factors: one alone would leave the range of normal numbers.
  const int32_t half = exponent >> 1;
  const float first = std::bit_cast<float>(static_cast<uint32_t>(half + 127) << 23);
  const float second = std::bit_cast<float>(static_cast<uint32_t>(exponent - half + 127) << 23);
  return p * first * second;
}

// x / (1 + e^-x).
[[gnu::always_inline]] constexpr float SiluF(float x) { return x / (1.0f + ExpF(-x)); }

// e^x; infinity above 709.78, zero below -745.2; NaN for NaN.
double Exp(double x);
// Natural logarithm; -infinity for 0, NaN below.
double Log(double x);
// e^(exponent * ln base). REQUIRES: base > 0.
double Pow(double base, double exponent);
// REQUIRES: |x| <= 2^30.
double Sin(double x);
double Cos(double x);

}  // namespace baton
