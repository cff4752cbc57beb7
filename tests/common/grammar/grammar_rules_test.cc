#include "common/grammar/grammar_rules.h"

#include <string>

#include "gtest/gtest.h"

#include "xgrammar/grammar.h"

namespace baton {
namespace {

GrammarRules RulesOfGrammar(const std::string& text) {
  return GrammarRules(xgrammar::Grammar::FromEBNF(text));
}

TEST(GrammarRules, AreThoseThatXGrammarHas) {
  const GrammarRules rules = RulesOfGrammar("root ::= \"ab\" x | [^c-e]\nx ::= Token(7, 8)");
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_EQ(rules.name(rules.root()), "root");
  const GrammarExpression choices = rules.At(rules.body(rules.root()));
  ASSERT_EQ(choices.kind, GrammarPart::kChoices);
  ASSERT_EQ(PartsOf(choices).size(), 2u);
  const GrammarExpression first = rules.At(PartsOf(choices)[0]);
  ASSERT_EQ(first.kind, GrammarPart::kSequence);
  ASSERT_EQ(PartsOf(first).size(), 2u);
  const GrammarExpression text = rules.At(PartsOf(first)[0]);
  EXPECT_EQ(text.kind, GrammarPart::kByteString);
  EXPECT_EQ(text.data, GrammarData({'a', 'b'}));
  const GrammarExpression reference = rules.At(PartsOf(first)[1]);
  EXPECT_EQ(reference.kind, GrammarPart::kRule);
  EXPECT_EQ(rules.name(RulesOf(reference).at(0)), "x");
  const GrammarExpression of_class = rules.At(PartsOf(rules.At(PartsOf(choices)[1])).at(0));
  EXPECT_EQ(of_class.kind, GrammarPart::kCharacterClass);
  EXPECT_EQ(of_class.data, GrammarData({1, 'c', 'e'}));
}

TEST(GrammarRules, OfDispatchesAndRepetitionsAreFound) {
  const GrammarRules rules = RulesOfGrammar(
      "root ::= x{300,400}\nx ::= TagDispatch((\"<\", y), excludes=(\"no\"))\n"
      "y ::= TokenTagDispatch((3, z), (4, root), excludes=(5))\nz ::= \"z\"");
  std::vector<std::string> found;
  for (int32_t rule = 0; rule < static_cast<int32_t>(rules.size()); ++rule) {
    for (const int32_t named : RulesOf(rules.At(rules.body(rule)))) {
      found.push_back(rules.name(rule).substr(0, 1) + " " + rules.name(named));
    }
  }
  EXPECT_EQ(found, (std::vector<std::string>{"x y", "y z", "y root"}));
}

TEST(GrammarRules, TellWhetherTheRootStandsWithinItself) {
  EXPECT_TRUE(RulesOfGrammar("root ::= \"a\" root | \"b\"").RefersToItsRoot());
  EXPECT_TRUE(RulesOfGrammar("root ::= \"a\" x\nx ::= \"b\" | \"(\" root \")\"").RefersToItsRoot());
  EXPECT_TRUE(RulesOfGrammar("root ::= \"a\" x\nx ::= \"b\" | root{2}").RefersToItsRoot());
  EXPECT_FALSE(RulesOfGrammar("root ::= \"a\" x\nx ::= \"b\" x | \"c\"").RefersToItsRoot());
}

}  // namespace
}  // namespace baton
