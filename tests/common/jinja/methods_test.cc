#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "common/jinja/builtins.h"
#include "tests/common/jinja/shown_values.h"

namespace baton::jinja {
namespace {

class Methods : public testing::Test {
 protected:
  std::string Call(const Value& subject, absl::string_view method,
                   const std::vector<Value>& arguments = {}) {
    return values_.Call(FindMethod(method), subject, arguments);
  }

  TestValues values_;
};

TEST_F(Methods, EveryOneIsRefusedOnASubjectOfTheWrongKind) {
  for (const Builtin& method : baton::jinja::Methods()) {
    const std::vector<Value> arguments(method.required, values_.Own("a"));
    EXPECT_EQ(values_.Call(&method, values_.Int(1), arguments).rfind("error: a integer has no ", 0),
              0u)
        << method.name;
    EXPECT_EQ(
        values_.Call(&method, values_.Missing(), arguments).rfind("error: a undefined value", 0),
        0u)
        << method.name;
  }
}

TEST_F(Methods, EachStripTakesItsSideOnly) {
  EXPECT_EQ(Call(values_.Own(" a "), "strip"), "'a'");
  EXPECT_EQ(Call(values_.Own(" a "), "lstrip"), "'a '");
  EXPECT_EQ(Call(values_.Own(" a "), "rstrip"), "' a'");
  EXPECT_EQ(Call(values_.Message("xyaxy"), "lstrip", {values_.Own("yx")}), "'<axy>'");
  EXPECT_EQ(Call(values_.Message("xyaxy"), "rstrip", {values_.Own("yx")}), "'<xya>'");
}

TEST_F(Methods, FormatFillsItsFieldsInTurn) {
  EXPECT_EQ(Call(values_.Own("a{}b{}"), "format", {values_.Message("m"), values_.Int(2)}),
            "'a<m>b2'");
  EXPECT_EQ(Call(values_.Own("{{}}"), "format"), "'{}'");
  EXPECT_EQ(Call(values_.Message("a{}"), "format", {values_.Own("x")}), "'<ax>'");
  for (const char* text : {"{}{}", "{0}", "{", "}"}) {
    EXPECT_EQ(Call(values_.Own(text), "format", {values_.Own("x")}).rfind("error: format() ", 0),
              0u)
        << text;
  }
}

TEST_F(Methods, NothingChangesAList) {
  EXPECT_EQ(Call(values_.ListOf({}), "append", {values_.Own("x")}),
            "error: a list has no method that changes it; add lists with '+'");
}

// str.title() and the filter differ: only the method starts a word after every non-letter.
TEST_F(Methods, TitleStartsAWordAfterEverythingThatIsNoLetter) {
  EXPECT_EQ(Call(values_.Own("they're x2y"), "title"), "'They'Re X2Y'");
  EXPECT_EQ(values_.Call(FindFilter("title"), values_.Own("they're x2y")), "'They're X2y'");
}

TEST_F(Methods, SplitAtASeparatorKeepsEmptyParts) {
  const Value text = values_.Own(",a,,b");
  EXPECT_EQ(Call(text, "split", {values_.Own(",")}), "['', 'a', '', 'b']");
  EXPECT_EQ(Call(text, "split", {values_.Own(","), values_.Int(2)}), "['', 'a', ',b']");
  EXPECT_EQ(Call(text, "split", {values_.Own(","), values_.Int(0)}), "[',a,,b']");
  EXPECT_EQ(Call(text, "split", {values_.Own(","), values_.Int(-1)}), "['', 'a', '', 'b']");
  EXPECT_EQ(Call(values_.Own(""), "split", {values_.Own(",")}), "['']");
  EXPECT_EQ(Call(values_.Own("aaa"), "split", {values_.Own("aa")}), "['', 'a']");
}

TEST_F(Methods, SplitAtWhiteSpaceHasNoEmptyParts) {
  const Value text = values_.Own(" a \u3000 b\nc ");
  EXPECT_EQ(Call(text, "split"), "['a', 'b', 'c']");
  EXPECT_EQ(Call(text, "split", {Value{None{}}, values_.Int(1)}), "['a', 'b\nc ']");
  EXPECT_EQ(Call(text, "split", {Value{None{}}, values_.Int(0)}), "['a \u3000 b\nc ']");
  EXPECT_EQ(Call(values_.Own(" \n"), "split"), "[]");
}

TEST_F(Methods, SplitRefusesASeparatorThatSeparatesNothing) {
  const std::string error = "error: the separator of split() must be a string that is not empty";
  EXPECT_EQ(Call(values_.Own("a"), "split", {values_.Own("")}), error);
  EXPECT_EQ(Call(values_.Own("a"), "split", {values_.Int(1)}), error);
  EXPECT_EQ(Call(values_.Own("a"), "split", {values_.Own(","), values_.Own("1")}),
            "error: the count of split() must be an integer");
}

TEST_F(Methods, TheOriginOfEachPartIsThatOfItsBytes) {
  Text mixed("a,", true);
  mixed.Append("b,c", false);
  const Value text = *values_.workspace().NewText(mixed);
  EXPECT_EQ(Call(text, "split", {values_.Own(",")}), "['a', '<b>', '<c>']");
  EXPECT_EQ(Call(text, "replace", {values_.Own(","), values_.Own(";")}), "'a;<b;c>'");
}

TEST_F(Methods, AffixesAreOneStringOrAListOfThem) {
  const Value text = values_.Own("abc");
  EXPECT_EQ(Call(text, "startswith", {values_.Own("ab")}), "true");
  EXPECT_EQ(Call(text, "startswith", {values_.Own("bc")}), "false");
  EXPECT_EQ(Call(text, "endswith", {values_.Own("bc")}), "true");
  EXPECT_EQ(Call(text, "endswith", {values_.Own("ab")}), "false");
  EXPECT_EQ(Call(text, "startswith", {values_.ListOf({values_.Own("x"), values_.Own("a")})}),
            "true");
  EXPECT_EQ(Call(text, "startswith", {values_.ListOf({})}), "false");
  EXPECT_EQ(Call(text, "endswith", {values_.ListOf({values_.Int(1)})}),
            "error: startswith() and endswith() take strings, not a integer");
  EXPECT_EQ(Call(text, "startswith", {values_.Generator({values_.Own("a")})}),
            "error: startswith() and endswith() take strings, not a generator (use list)");
}

TEST_F(Methods, FindCountsCharactersAndSaysMinusOneForNothing) {
  EXPECT_EQ(Call(values_.Own("\u4e16ab"), "find", {values_.Own("b")}), "2");
  EXPECT_EQ(Call(values_.Own("abc"), "find", {values_.Own("x")}), "-1");
  EXPECT_EQ(Call(values_.Own("abc"), "find", {values_.Own("")}), "0");
  EXPECT_EQ(Call(values_.Own("abc"), "find", {values_.Int(1)}), "error: find() takes a string");
}

TEST_F(Methods, AnAnswerAboutAMessagesBytesIsTheMessages) {
  EXPECT_EQ(Call(values_.Message("abc"), "find", {values_.Own("b")}), "<1>");
  EXPECT_EQ(Call(values_.Own("abc"), "find", {values_.Message("b")}), "<1>");
  EXPECT_EQ(Call(values_.Own("abc"), "find", {values_.Message("x")}), "<-1>");
  EXPECT_EQ(Call(values_.Message("abc"), "startswith", {values_.Own("a")}), "<true>");
  EXPECT_EQ(Call(values_.Own("abc"), "startswith", {values_.Message("a")}), "<true>");
  EXPECT_EQ(Call(values_.Own("abc"), "endswith",
                 {values_.ListOf({values_.Own("c"), values_.Message("x")})}),
            "<true>");
}

TEST_F(Methods, GetGivesTheValueTheDefaultOrNone) {
  const Value dict = values_.DictOf(
      {{values_.Own("a"), values_.Message("v")}, {values_.Int(1), values_.Own("one")}});
  EXPECT_EQ(Call(dict, "get", {values_.Own("a")}), "'<v>'");
  EXPECT_EQ(Call(dict, "get", {Value{true}}), "'one'");
  EXPECT_EQ(Call(dict, "get", {values_.Own("b")}), "none");
  EXPECT_EQ(Call(dict, "get", {values_.Own("b"), values_.Int(7)}), "7");
}

TEST_F(Methods, KeysValuesAndItemsComeInTheOrderOfInsertion) {
  const Value dict =
      values_.DictOf({{values_.Own("b"), values_.Int(1)}, {values_.Own("a"), values_.Int(2)}});
  EXPECT_EQ(Call(dict, "keys"), "['b', 'a']");
  EXPECT_EQ(Call(dict, "values"), "[1, 2]");
  EXPECT_EQ(Call(dict, "items"), "[['b', 1], ['a', 2]]");
}

TEST_F(Methods, JoinIsTheSeparatorsMethod) {
  EXPECT_EQ(
      Call(values_.Own("-"), "join", {values_.ListOf({values_.Own("a"), values_.Message("b")})}),
      "'a-<b>'");
  EXPECT_EQ(Call(values_.Own("-"), "join", {values_.Int(1)}),
            "error: cannot iterate over a integer");
}

}  // namespace
}  // namespace baton::jinja
