// Estimates the size of an expression's automaton.
#pragma once

#include "absl/strings/string_view.h"

namespace baton {

// States that repetitions with bounds add to the automaton that XGrammar 0.2.8 makes of a regular
// expression: one for each time that a character or class is repeated. What is no expression has
// any number. A pure function that takes time linear in the pattern.
double RepeatedStates(absl::string_view pattern);

// The states that repetitions of one form may add: all of these in one place, or fewer in each of
// several, since the time to compile them grows with the sum of their squares.
inline constexpr int kMaxRepeatedStates = 2048;

}  // namespace baton
