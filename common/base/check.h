// BATON_CHECK is for bugs that would corrupt memory or answers. Wrong input from outside gets a
// Status instead.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace baton {

[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition,
                                     const char* why) {
  std::fprintf(stderr, "%s:%d: check failed: %s (%s)\n", file, line, condition, why);
  std::abort();
}

}  // namespace baton

// Ends the process, in every build type, when `condition` is false. `why` is a string literal.
#define BATON_CHECK(condition, why)                              \
  do {                                                           \
    if (!(condition)) [[unlikely]] {                             \
      ::baton::CheckFailed(__FILE__, __LINE__, #condition, why); \
    }                                                            \
  } while (false)
