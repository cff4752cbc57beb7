// Elementary functions whose bits are the same on every CPU and in every build, which libm's are
// not. Of libm only sqrt and fma are used, which are exact by definition. REQUIRES: rounding to
// nearest, no FTZ/DAZ.
//
// ExpF is for kernels: it is inlined and has no branches, so that a loop over it vectorises. ExpF
// and Log are constexpr, so that device code may call them. The functions of double are for tables
// and sampling: their error is a few units in the last place, far below what a float can show.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace baton {

// e^x within 1 ulp; a subnormal result is within 1 of its last place. Infinity above 88.73, zero
// below -103.98, NaN for NaN.
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

// The constants of the other gates: GELU's approximation by tanh in the form g / (1 + e^(g * (linear +
// cubic * g^2))), and the clamped SiLU (GateFunction).
inline constexpr float kGeluTanhLinear = -1.5957691216057308f;  // -2 sqrt(2 / pi)
inline constexpr float kGeluTanhCubic = -1.5957691216057308f * 0.044715f;
inline constexpr float kGateClamp = 7.0f;
inline constexpr float kClampedSiluSlope = 1.702f;

// The natural logarithm; -infinity for 0, NaN for negative numbers and NaN.
constexpr double Log(double x) {
  if (x != x || x < 0) return std::numeric_limits<double>::quiet_NaN();
  if (x == 0) return -std::numeric_limits<double>::infinity();
  if (x == std::numeric_limits<double>::infinity()) return x;
  int exponent = 0;
  if (x < 0x1p-1022) {  // subnormal
    x *= 0x1p54;
    exponent = -54;
  }
  const auto bits = std::bit_cast<uint64_t>(x);
  exponent += static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffull) | (1023ull << 52));  // [1, 2)
  if (m > 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    ++exponent;
  }
  // ln m = 2 artanh s; |s| <= 0.172.
  const double s = (m - 1.0) / (m + 1.0);
  const double s2 = s * s;
  double sum = 0;
  for (int k = 25; k >= 3; k -= 2) sum = (sum + 1.0 / k) * s2;
  constexpr double kLn2High = 0x1.62e42fefa39efp-1;
  constexpr double kLn2Low = 0x1.abc9e3b39803fp-56;
  return __builtin_fma(exponent, kLn2High,
                       __builtin_fma(exponent, kLn2Low, 2.0 * s + 2.0 * s * sum));
}

// e^x. Infinity above 709.78, zero below -745.2, NaN for NaN.
double Exp(double x);
// e^(exponent * ln base). REQUIRES: base > 0.
double Pow(double base, double exponent);
// REQUIRES: |x| <= 2^30.
double Sin(double x);
double Cos(double x);

}  // namespace baton
