// Arithmetic on sizes that come from outside: it reports an overflow and never wraps.
#pragma once

#include <concepts>

namespace baton {

// True, with the sum in `*result`; false, with `*result` unspecified, when the sum does not fit.
template <std::unsigned_integral T>
[[nodiscard]] constexpr bool CheckedAdd(T a, T b, T* result) {
  return !__builtin_add_overflow(a, b, result);
}

// True, with the product in `*result`; false, with `*result` unspecified, when the product does not
// fit.
template <std::unsigned_integral T>
[[nodiscard]] constexpr bool CheckedMultiply(T a, T b, T* result) {
  return !__builtin_mul_overflow(a, b, result);
}

}  // namespace baton
