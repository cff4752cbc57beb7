#include "common/grammar/pattern_states.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(RepeatedStates, CountWhatRepetitionsAdd) {
  for (const auto& [pattern, states] : {
           std::pair("", 0.0),
           std::pair("abc|[b-z]\\d", 0.0),
           std::pair("a*b+c?(d)*", 0.0),
           std::pair("a{5000}", 4999.0),
           std::pair("^[a-z]{1,5000}$", 4999.0),
           std::pair("[^\"\\\\\\x00-\\x1f]{0,2000}", 1999.0),
           std::pair("[]}]{3,}", 2.0),
           std::pair("(ab(c){2}){10}", 1 + 9 * 4.0),
           std::pair("a{5}b{6}", 9.0),
           std::pair("\\{5000}", 0.0),
           std::pair("a{0}a{1}", 0.0),
       }) {
    EXPECT_EQ(RepeatedStates(pattern), states) << pattern;
  }
  EXPECT_GT(RepeatedStates("((a{1,9999}){1,9999}){1,9999}"), 9e11);
  for (const char* broken : {"a{", ")", "(", "[", "\\", "a{x}", "{2}", "a{-3}", "a{nan}"}) {
    EXPECT_EQ(RepeatedStates(broken), 0) << broken;
  }
}

}  // namespace
}  // namespace baton
