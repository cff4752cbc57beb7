#include "common/jinja/runtime.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "common/jinja/parser.h"
#include "tests/common/jinja/shown_values.h"

namespace baton::jinja {
namespace {

// What the template writes; `c` is a message's text "hi".
std::string Written(absl::string_view source) {
  const auto block = Parse(source);
  if (!block.ok()) return absl::StrCat("no template: ", block.status().message());
  TestValues values;
  return Shown(
      Run(*block, {{"c", values.Message("hi")}, {"n", values.Int(2)}}, values.workspace()));
}

TEST(Runtime, WritesEachPartWithItsOrigin) {
  EXPECT_EQ(Written("a{{ c }}{{ n }}{{ c | length }}"), "a<hi>2<2>");
  EXPECT_EQ(Written(""), "");
}

TEST(Runtime, TheOriginOutlivesBlocksAndMacros) {
  EXPECT_EQ(Written("{% set x %}[{{ c }}]{% endset %}{{ x }}"), "[<hi>]");
  EXPECT_EQ(Written("{% macro m(a) %}<{{ a }}|{% endmacro %}{{ m(c) | upper }}"), "<<HI>|");
}

TEST(Runtime, WhatAMessageDecidesIsNotTrusted) {
  EXPECT_EQ(Written("{% for x in c %}{{ loop.index }}{{ loop.last }}{% endfor %}"),
            "<1False2True>");
  EXPECT_EQ(Written("{{ c.split() | length }}{{ 'a b'.split() | length }}"), "<1>2");
  EXPECT_EQ(Written("{{ c.split('i') | length }}{{ c | list | length }}"), "<22>");
  EXPECT_EQ(Written("{{ (c.split() + [1]) | length }}{{ c.split()[:1] | length }}"), "<21>");
  EXPECT_EQ(Written("{{ c.split() | map('length') | list | length }}"), "<1>");
  EXPECT_EQ(Written("{{ [1, 2][:c | length] | length }}{{ ([1] * (c | length)) | length }}"),
            "<22>");
  EXPECT_EQ(Written("{{ [c] | select('eq', 'hi') | list | length }}{{ [c] | length }}"), "<1>1");
  EXPECT_EQ(Written("{% for x in [c] if x == 'hi' %}{{ loop.length }}{% endfor %}"), "<1>");
  EXPECT_EQ(Written("{{ {c: 1} | length }}{{ {'c': c} | length }}"), "<1>1");
  EXPECT_EQ(Written("{{ [c] == ['hi'] }}{{ 'hi' in [c] }}{{ not c.split() }}"), "<TrueTrueFalse>");
  EXPECT_EQ(Written("{{ c.split('i') | tojson }}"), "[\"<h>\"<, >\"\"]");
  EXPECT_EQ(Written("{{ c | list | join('|') }}"), "<h|i>");
}

TEST(Runtime, WhatAnIfSetsStaysAndWhatALoopSetsGoes) {
  EXPECT_EQ(Written("{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}"), "2");
  EXPECT_EQ(
      Written("{% set x = 1 %}{% for i in [5] %}{% set x = i %}{{ x }}{% endfor %}{{ x }}{{ i }}"),
      "51");
  EXPECT_EQ(Written("{% for i in [1, 2] %}{{ x }}{% set x = i %}{% endfor %}"), "");
  EXPECT_EQ(Written("{% set x %}{% set y = 1 %}{% endset %}{{ y }}"), "");
}

TEST(Runtime, ANamespaceIsHowALoopReportsOut) {
  EXPECT_EQ(Written("{% set s = namespace(a=0) %}{% for i in [1, 2] %}{% set s.a = s.a + i %}{% "
                    "set s.b = i %}"
                    "{% endfor %}{{ s.a }}{{ s.b }}"),
            "32");
  EXPECT_EQ(Written("{% set n.a = 1 %}"),
            "error: chat template line 1: cannot set an attribute of a integer");
}

TEST(Runtime, BreakAndContinueReachTheLoopAroundThemAndNoOther) {
  EXPECT_EQ(Written("{% for i in [1, 2] %}{% for j in [1, 2, 3] %}{% if j == 2 %}{% break %}{% "
                    "endif %}{{ j }}"
                    "{% endfor %};{% endfor %}"),
            "1;1;");
  EXPECT_EQ(
      Written(
          "{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}"),
      "13");
}

TEST(Runtime, TheElseOfALoopIsForNoItems) {
  EXPECT_EQ(Written("{% for i in [] %}a{% else %}none{% endfor %}"), "none");
  EXPECT_EQ(Written("{% for i in [1] if i > 1 %}a{% else %}none{% endfor %}"), "none");
  EXPECT_EQ(Written("{% for i in [1] %}{% break %}{% else %}none{% endfor %}"), "");
  EXPECT_EQ(Written("{% set x=1 %}{% for i in [] %}{% else %}{% set x=2 %}{% endfor %}{{ x }}"),
            "1");
}

TEST(Runtime, AFilterCountsOnlyTheItemsItKeeps) {
  EXPECT_EQ(Written("{% for i in [1, 2, 3] if i != 2 %}{{ loop.index }}/{{ loop.length }}:{{ i }} "
                    "{% endfor %}"),
            "1/2:1 2/2:3 ");
}

TEST(Runtime, NamesAndPartsMustBeEqualInNumber) {
  EXPECT_EQ(Written("{% set a, b = 'xy' %}{{ b }}{{ a }}"), "yx");
  EXPECT_EQ(Written("\n{% set a, b = [1] %}"), "error: chat template line 2: 1 values for 2 names");
  EXPECT_EQ(Written("{% for a, b in [[1, 2, 3]] %}{% endfor %}"),
            "error: chat template line 1: 3 values for 2 names");
}

TEST(Runtime, AVariableOfTheCallerMayHideAFunction) {
  TestValues values;
  const auto block = Parse("{{ range }}");
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(Shown(jinja::Run(*block, {{"range", values.Own("mine")}}, values.workspace())), "mine");
}

TEST(Runtime, TheTemplatesOwnErrorComesUnchangedFromAnyDepth) {
  EXPECT_EQ(Written("{% macro m() %}{{ raise_exception('stop') }}{% endmacro %}"
                    "{% for i in [1] %}{% set x %}{{ m() }}{% endset %}{% endfor %}"),
            "error: stop");
}

TEST(Runtime, AnErrorInsideABlockLeavesItsLine) {
  EXPECT_EQ(Written("\n{% set x %}\n{{ range }}\n{% endset %}"),
            "error: chat template line 3: a function cannot be converted to text");
}

TEST(Runtime, TheOutputHasItsMostBytesAndNoMore) {
  const std::string part(1024, 'a');
  const std::string most = absl::StrCat("{% set x = '", part, "' * ",
                                        kMaxTextBytes / 2 / part.size(), " %}{{ x }}{{ x }}");
  EXPECT_EQ(Written(most).size(), kMaxTextBytes);
  EXPECT_EQ(Written(most + "b"), "error: chat template line 1: more than 16 MiB of text");
}

TEST(Runtime, AnEndlessMacroEndsWithTheDepth) {
  EXPECT_EQ(Written("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
            absl::StrCat("error: chat template line 1: nested deeper than ", kMaxEvaluationDepth,
                         " while running"));
}

}  // namespace
}  // namespace baton::jinja
