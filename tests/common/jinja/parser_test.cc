#include "common/jinja/parser.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "tests/common/jinja/shown_tree.h"

namespace baton::jinja {
namespace {

std::string Outline(const Block& block);

std::string Outline(const Statement& statement) {
  std::string names;
  for (const std::string& name : statement.names)
    absl::StrAppend(&names, names.empty() ? "" : ",", name);
  if (!statement.attribute.empty()) absl::StrAppend(&names, ".", statement.attribute);
  const std::string expression = Tree(statement.expression.get());
  switch (statement.kind) {
    case StatementKind::kText:
      return absl::StrCat("'", Shown(statement.text), "'");
    case StatementKind::kOutput:
      return absl::StrCat("out ", expression);
    case StatementKind::kIf: {
      std::string outline;
      for (const auto& [condition, body] : statement.branches) {
        absl::StrAppend(&outline, outline.empty() ? "if " : " elif ", Tree(condition.get()),
                        Outline(body));
      }
      return absl::StrCat(outline, " else", Outline(statement.otherwise));
    }
    case StatementKind::kFor:
      return absl::StrCat("for ", names, " in ", expression, " if ", Tree(statement.filter.get()),
                          Outline(statement.body), " else", Outline(statement.otherwise));
    case StatementKind::kSet:
      return absl::StrCat("set ", names, " = ", expression);
    case StatementKind::kSetBlock:
      return absl::StrCat("set ", names, Outline(statement.body));
    case StatementKind::kMacro: {
      std::string outline = absl::StrCat("macro ", names);
      for (const auto& [name, fallback] : statement.parameters) {
        absl::StrAppend(&outline, " ", name, "=", Tree(fallback.get()));
      }
      return outline + Outline(statement.body);
    }
    case StatementKind::kBreak:
      return "break";
    case StatementKind::kContinue:
      return "continue";
  }
  return "";
}

std::string Outline(const Block& block) {
  std::string outline = "{";
  for (const auto& statement : block)
    absl::StrAppend(&outline, outline == "{" ? "" : "; ", Outline(*statement));
  return outline + "}";
}

std::string ParsedTemplate(absl::string_view source) {
  const auto block = Parse(source);
  return block.ok() ? Outline(*block) : absl::StrCat("error: ", block.status().message());
}

TEST(Parser, TextIsTheTemplatesOwn) { EXPECT_EQ(ParsedTemplate("a{{ b }}c"), "{'a'; out b; 'c'}"); }

TEST(Parser, AnIfHasItsBranchesInOrder) {
  EXPECT_EQ(ParsedTemplate("{% if a %}1{% elif b %}2{% elif c %}3{% else %}4{% endif %}"),
            "{if a{'1'} elif b{'2'} elif c{'3'} else{'4'}}");
  EXPECT_EQ(ParsedTemplate("{% if a %}{% endif %}"), "{if a{} else{}}");
}

TEST(Parser, AForHasNamesAFilterAndAnElse) {
  EXPECT_EQ(ParsedTemplate("{% for a, b in c if d %}1{% else %}2{% endfor %}"),
            "{for a,b in c if d{'1'} else{'2'}}");
  EXPECT_EQ(ParsedTemplate("{% for (a, b) in c %}{% break %}{% continue %}{% endfor %}"),
            "{for a,b in c if _{break; continue} else{}}");
}

TEST(Parser, ASetGivesNamesAnAttributeOrABlock) {
  EXPECT_EQ(ParsedTemplate("{% set a, b = 1, 2 %}"), "{set a,b = (list 1 2)}");
  EXPECT_EQ(ParsedTemplate("{% set a.b = 1 %}"), "{set a.b = 1}");
  EXPECT_EQ(ParsedTemplate("{% set a %}x{{ b }}{% endset %}"), "{set a{'x'; out b}}");
  EXPECT_EQ(ParsedTemplate("{% set a, b %}{% endset %}"),
            "error: chat template line 1: unexpected '%}'");
}

TEST(Parser, AMacroHasParametersWithDefaults) {
  EXPECT_EQ(ParsedTemplate("{% macro m(a, b=1) %}x{% endmacro %}"), "{macro m a=_ b=1{'x'}}");
  EXPECT_EQ(ParsedTemplate("{% macro m(a b) %}{% endmacro %}"),
            "error: chat template line 1: expected ',' before 'b'");
}

TEST(Parser, WhatGenerationMarksStandsAsIfItWereNot) {
  EXPECT_EQ(ParsedTemplate("a{% generation %}b{{ c }}{% endgeneration %}d"),
            "{'a'; 'b'; out c; 'd'}");
}

TEST(Parser, ABreakNeedsALoopInItsOwnBody) {
  const std::string error = "error: chat template line 1: 'break' outside a loop";
  EXPECT_EQ(ParsedTemplate("{% break %}"), error);
  EXPECT_EQ(ParsedTemplate("{% for a in b %}{% endfor %}{% break %}"), error);
  EXPECT_EQ(ParsedTemplate("{% for a in b %}{% else %}{% break %}{% endfor %}"), error);
  EXPECT_EQ(ParsedTemplate("{% for a in b %}{% set c %}{% break %}{% endset %}{% endfor %}"),
            error);
  EXPECT_EQ(ParsedTemplate("{% for a in b %}{% set c %}{% endset %}{% break %}{% endfor %}"),
            "{for a in b if _{set c{}; break} else{}}");
}

TEST(Parser, AMacroStandsOutsideLoopsAndMacros) {
  const std::string error =
      "error: chat template line 1: unsupported: a macro inside a loop or a macro";
  EXPECT_EQ(ParsedTemplate("{% for a in b %}{% macro m() %}{% endmacro %}{% endfor %}"), error);
  EXPECT_EQ(ParsedTemplate("{% macro m() %}{% macro n() %}{% endmacro %}{% endmacro %}"), error);
  EXPECT_EQ(ParsedTemplate("{% macro m() %}{% endmacro %}{% macro n() %}{% endmacro %}"),
            "{macro m{}; macro n{}}");
}

TEST(Parser, EveryTagThatOpensMustClose) {
  const std::string at = "error: chat template line 2: ";
  EXPECT_EQ(ParsedTemplate("{% if a %}\n"),
            "error: chat template line 1: 'elif' is missing at the end");
  EXPECT_EQ(ParsedTemplate("{% for a in b %}\nx"), at + "'else' is missing at the end");
  EXPECT_EQ(ParsedTemplate("\n{% endif %}"), at + "unsupported tag 'endif'");
  EXPECT_EQ(ParsedTemplate("\n{% if a %}{% endfor %}"), at + "unsupported tag 'endfor'");
  EXPECT_EQ(ParsedTemplate("\n{% if a b %}"), at + "unexpected 'b'");
  EXPECT_EQ(ParsedTemplate("\n{% %}"), at + "unexpected '%}'");
}

TEST(Parser, AFunctionThatIsCalledMustBeKnownOrQuestioned) {
  const std::string error = "error: chat template line 2: unknown function 'f'";
  EXPECT_EQ(ParsedTemplate("\n{{ f() }}"), error);
  EXPECT_EQ(ParsedTemplate("{{ f is none }}\n{{ f() }}"), error);
  EXPECT_EQ(ParsedTemplate("{{ f() if f is defined }}"), "{out (if (f()) (defined f) _)}");
  EXPECT_EQ(ParsedTemplate("{{ f() }}{% macro f() %}{% endmacro %}"), "{out (f()); macro f{}}");
  EXPECT_EQ(ParsedTemplate("{{ range(1) }}{{ namespace() }}{{ raise_exception('a') }}"),
            "{out (range() 1); out (namespace()); out (raise_exception() 'a')}");
}

TEST(Parser, TagsNestAsDeepAsAllowedAndNoDeeper) {
  const auto nested = [](int depth) {
    std::string source;
    for (int i = 0; i < depth; ++i) source += "{% if a %}";
    for (int i = 0; i < depth; ++i) source += "{% endif %}";
    return ParsedTemplate(source);
  };
  EXPECT_EQ(nested(kMaxNesting - 2).rfind("error", 0), std::string::npos);
  EXPECT_EQ(nested(kMaxNesting + 1),
            absl::StrCat("error: chat template line 1: nested deeper than ", kMaxNesting));
}

TEST(Parser, ATemplateHasItsMostBytesAndNoMore) {
  EXPECT_EQ(ParsedTemplate(std::string(kMaxTemplateBytes, 'x')).size(), kMaxTemplateBytes + 4);
  EXPECT_EQ(ParsedTemplate(std::string(kMaxTemplateBytes + 1, 'x')),
            absl::StrCat("error: the chat template has ", kMaxTemplateBytes + 1,
                         " bytes, more than ", kMaxTemplateBytes));
}

}  // namespace
}  // namespace baton::jinja
