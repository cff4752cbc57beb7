// exp and log with the same bits on every processor: libm's differ between CPUs and versions.
//
// Plain IEEE double operations in a fixed order, no fused multiply-add (-ffp-contract=off), rounded
// to float once: within 0.51 units in the last place. Branch-free on the main path, so a loop over
// an array vectorises.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace baton {

inline float ExactExp(float x) {
  constexpr double kLog2E = 1.4426950408889634074;
  constexpr double kLn2 = 0.69314718055994530942;
  constexpr double kRound = 0x1.8p52;  // added and subtracted: rounds to an integer, ties to even
  // Beyond these e^x is 0 or infinite in float, and 2^n below stays a normal double.
  const double clamped = x < -105.0f ? -105.0 : (x > 89.0f ? 89.0 : static_cast<double>(x));
  const double n = (clamped * kLog2E + kRound) - kRound;
  const double r = clamped - n * kLn2;  // |r| <= ln 2 / 2
  double sum = 1.0 / 39916800;
  sum = sum * r + 1.0 / 3628800;
  sum = sum * r + 1.0 / 362880;
  sum = sum * r + 1.0 / 40320;
  sum = sum * r + 1.0 / 5040;
  sum = sum * r + 1.0 / 720;
  sum = sum * r + 1.0 / 120;
  sum = sum * r + 1.0 / 24;
  sum = sum * r + 1.0 / 6;
  sum = sum * r + 0.5;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  const auto exponent = static_cast<uint64_t>(static_cast<int64_t>(n) + 1023);
  const double power = std::bit_cast<double>(exponent << 52);
  return x != x ? x : static_cast<float>(sum * power);
}

// Natural logarithm. 0 gives -infinity, negative numbers NaN.
inline float ExactLog(float x) {
  constexpr double kLn2 = 0.69314718055994530942;
  if (!(x > 0))
    return x == 0 ? -std::numeric_limits<float>::infinity()
                  : std::numeric_limits<float>::quiet_NaN();
  if (x == std::numeric_limits<float>::infinity()) return x;
  const auto bits =
      std::bit_cast<uint64_t>(static_cast<double>(x));  // float subnormals are normal here
  auto exponent = static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000);
  if (mantissa > 1.4142135623730950488) {
    mantissa *= 0.5;
    ++exponent;
  }
  // log m = 2 artanh f; |f| <= 0.172
  const double f = (mantissa - 1.0) / (mantissa + 1.0);
  const double square = f * f;
  double sum = 1.0 / 19;
  for (int k = 17; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return static_cast<float>(2.0 * f * sum + exponent * kLn2);
}

}  // namespace baton
