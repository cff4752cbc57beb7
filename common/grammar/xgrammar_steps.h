// The steps of XGrammar's parser, counted so that a caller can stop it: how many a mask takes
// depends on the grammar's author, and can be any number.
//
// scripts/build_xgrammar.sh puts this header among the library's own, and a call of CountStep wherever
// its parser adds a state, scans one, or compares two.
#pragma once

#include <cstdint>

namespace xgrammar {

// Called after every kStepsBetweenChecks steps of this thread; null: no check. It may throw, and
// the matcher in whose call it does is then good for nothing but its destructor.
inline thread_local void (*step_check)() = nullptr;
inline thread_local uint32_t steps_taken = 0;
inline constexpr uint32_t kStepsBetweenChecks = 4096;  // some tens of microseconds

inline void CountStep() {
  if (++steps_taken < kStepsBetweenChecks) return;
  steps_taken = 0;
  if (step_check != nullptr) step_check();
}

}  // namespace xgrammar
