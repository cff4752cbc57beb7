#include "common/backend/exact_math.h"

#include <cmath>
#include <limits>

#include "common/base/check.h"

namespace baton {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLn2High = 0x1.62e42fefa39efp-1;
constexpr double kLn2Low = 0x1.abc9e3b39803fp-56;

double RoundToInteger(double x) {
  constexpr double kRound = 0x1.8p52;
  return (x + kRound) - kRound;
}

double PowerOfTwo(int exponent) {  // REQUIRES: -1022 <= exponent <= 1023
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// An angle reduced by multiples of pi/2, and their number modulo 4.
struct Quadrant {
  double r;  // |r| <= pi/4 and a little
  int index;
};

Quadrant ReduceAngle(double x) {
  BATON_CHECK(std::fabs(x) <= 0x1p30, "the reduction is exact for small multiples only");
  const double n = RoundToInteger(x * 0x1.45f306dc9c883p-1);  // 2 / pi
  double r = std::fma(-n, 0x1.921fb54442d18p+0, x);           // pi/2 in three pieces
  r = std::fma(-n, 0x1.1a62633145c07p-54, r);
  r = std::fma(-n, -0x1.f1976b7ed8fbcp-110, r);
  return {r, static_cast<int>(static_cast<int64_t>(n) & 3)};
}

// Taylor series. Where |r| <= pi/4, the terms left out sum to less than 1e-18.
double SinSeries(double r) {
  const double r2 = r * r;
  double term_sum = 0;
  for (int k = 17; k >= 3; k -= 2) term_sum = (1.0 - term_sum) * r2 / (k * (k - 1));
  return r - r * term_sum;
}

double CosSeries(double r) {
  const double r2 = r * r;
  double term_sum = 0;
  for (int k = 18; k >= 2; k -= 2) term_sum = (1.0 - term_sum) * r2 / (k * (k - 1));
  return 1.0 - term_sum;
}

}  // namespace

double Exp(double x) {
  if (std::isnan(x)) return x;
  if (x > 709.79) return kInfinity;
  if (x < -745.2) return 0;
  const double n = RoundToInteger(x * 0x1.71547652b82fep+0);
  const double r = std::fma(-n, kLn2Low, std::fma(-n, kLn2High, x));
  double sum = 1;
  for (int k = 14; k >= 1; --k) sum = 1.0 + sum * r / k;
  const int exponent = static_cast<int>(n);
  const int half = exponent / 2;
  return sum * PowerOfTwo(half) * PowerOfTwo(exponent - half);
}

double Pow(double base, double exponent) { return Exp(exponent * Log(base)); }

double Sin(double x) {
  const Quadrant q = ReduceAngle(x);
  const double value = q.index % 2 == 0 ? SinSeries(q.r) : CosSeries(q.r);
  return q.index < 2 ? value : -value;
}

double Cos(double x) {
  const Quadrant q = ReduceAngle(x);
  const double value = q.index % 2 == 0 ? CosSeries(q.r) : SinSeries(q.r);
  return q.index == 0 || q.index == 3 ? value : -value;
}

}  // namespace baton
