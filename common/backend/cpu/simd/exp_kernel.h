// ExpF (exact_math.h) of sixteen lanes at once, with the same operations and so the same bits.
#pragma once

namespace baton {

template <class Simd>
[[gnu::always_inline]] inline typename Simd::F ExpLanes(typename Simd::F x) {
  using F = typename Simd::F;
  const F round = Simd::Set(0x1.8p23f);
  x = Simd::Min(Simd::Set(89.0f), Simd::Max(Simd::Set(-104.0f), x));
  const F n = Simd::Sub(Simd::Fma(x, Simd::Set(0x1.715476p+0f), round), round);
  const F high = Simd::Fma(n, Simd::Set(-0x1.62e43p-1f), x);
  const F r = Simd::Fma(n, Simd::Set(0x1.05c61p-29f), high);
  F p = Simd::Fma(Simd::Set(1.0f / 5040), r, Simd::Set(1.0f / 720));
  p = Simd::Fma(p, r, Simd::Set(1.0f / 120));
  p = Simd::Fma(p, r, Simd::Set(1.0f / 24));
  p = Simd::Fma(p, r, Simd::Set(1.0f / 6));
  p = Simd::Fma(p, r, Simd::Set(0.5f));
  p = Simd::Fma(p, r, Simd::Set(1.0f));
  p = Simd::Fma(p, r, Simd::Set(1.0f));
  return Simd::ScaleByPowerOfTwo(p, n);
}

}  // namespace baton
