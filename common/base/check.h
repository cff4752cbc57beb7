// BATON_CHECK is for bugs that would corrupt memory or answers. Wrong input from outside gets a
// Status instead.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace baton {

[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition,
                                     const char* rule) {
  std::fprintf(stderr, "%s:%d: check failed: %s (%s)\n", file, line, condition, rule);
  std::abort();
}

// The same with the value of `expression`, which violates the rule.
template <typename Integer>
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, const char* rule,
                              const char* expression, Integer value) {
  std::fprintf(stderr, "%s:%d: check failed: %s (%s; %s is %lld)\n", file, line, condition, rule,
               expression, static_cast<long long>(value));
  std::abort();
}

}  // namespace baton

// BATON_CHECK(condition, rule[, value]) ends the process, in every build type, if `condition` is
// false. `rule` is a string literal that says what must hold, such as "rows must be 1 to 8". The
// integer `value` is evaluated only on a failure, and follows the rule: "rows must be 1 to 8;
// batch.rows() is 9".
#define BATON_CHECK(condition, rule, ...)                                 \
  do {                                                                    \
    if (!(condition)) [[unlikely]] {                                      \
      ::baton::CheckFailed(__FILE__, __LINE__, #condition,                \
                           rule __VA_OPT__(, #__VA_ARGS__, __VA_ARGS__)); \
    }                                                                     \
  } while (false)
