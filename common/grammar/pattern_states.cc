#include "common/grammar/pattern_states.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace baton {
namespace {

// Bytes of the class, escape or character at the front.
size_t AtomBytes(absl::string_view pattern) {
  if (pattern[0] == '\\') return std::min<size_t>(2, pattern.size());
  if (pattern[0] != '[') return 1;
  size_t end = pattern.size() > 1 && pattern[1] == '^' ? 2 : 1;
  while (end < pattern.size() && pattern[end] != ']') end += pattern[end] == '\\' ? 2U : 1U;
  return std::min(end + 1, pattern.size());
}

// Returns the number of a repetition such as "{2}" or "{2,}", of "{2,5}" the upper one. 0 if it is
// no repetition.
double Times(absl::string_view braces) {
  double times = 0;
  for (const absl::string_view bound :
       absl::StrSplit(braces.substr(1, braces.size() - 2), ',', absl::SkipEmpty())) {
    double count = 0;
    if (!absl::SimpleAtod(bound, &count) || !(count >= 0)) return 0;
    times = std::max(times, count);
  }
  return times;
}

}  // namespace

double RepeatedStates(absl::string_view pattern) {
  double states = 0;
  double repeated = 0;         // states among them that repetitions add
  double atom = 0;             // states of what a repetition would repeat
  std::vector<double> groups;  // states before each open group
  while (!pattern.empty()) {
    size_t bytes = 1;
    if (pattern[0] == '(') {
      groups.push_back(states);
    } else if (pattern[0] == ')') {
      atom = groups.empty() ? 0 : states - groups.back();
      if (!groups.empty()) groups.pop_back();
    } else if (pattern[0] == '{' && absl::StrContains(pattern, '}')) {
      bytes = pattern.find('}') + 1;
      const double more = std::max(Times(pattern.substr(0, bytes)) - 1, 0.0) * atom;
      states += more;
      repeated += more;
    } else if (pattern[0] != '*' && pattern[0] != '+' && pattern[0] != '?' && pattern[0] != '|') {
      bytes = AtomBytes(pattern);
      atom = 1;
      states += atom;
    }
    pattern.remove_prefix(bytes);
  }
  return repeated;
}

}  // namespace baton
