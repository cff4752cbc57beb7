#include "common/jinja/lexer.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace baton::jinja {
namespace {

// The kinds and texts of the tokens in one line; "error: ..." if there is one.
std::string Cut(absl::string_view source) {
  const auto tokens = Tokenize(source);
  if (!tokens.ok()) return absl::StrCat("error: ", tokens.status().message());
  std::string shown;
  for (const Token& token : *tokens) {
    switch (token.kind) {
      case TokenKind::kText:
        absl::StrAppend(&shown, "[", token.text, "]");
        break;
      case TokenKind::kString:
        absl::StrAppend(&shown, " '", token.text, "'");
        break;
      case TokenKind::kName:
        absl::StrAppend(&shown, " ", token.text);
        break;
      case TokenKind::kInteger:
        absl::StrAppend(&shown, " i", token.integer);
        break;
      case TokenKind::kFloat:
        absl::StrAppend(&shown, " f", token.number);
        break;
      case TokenKind::kOperator:
        absl::StrAppend(&shown, " op", token.text);
        break;
      case TokenKind::kEnd:
        break;
      default:
        absl::StrAppend(&shown, token.text);
    }
  }
  return shown;
}

TEST(Lexer, EndsWithTheEndWhateverTheTemplateHolds) {
  for (const absl::string_view source : {"", "\n", "text", "{# note #}", "{{ a }}", "{", "}}"}) {
    const auto tokens = Tokenize(source);
    ASSERT_TRUE(tokens.ok()) << source << ": " << tokens.status();
    ASSERT_FALSE(tokens->empty()) << source;
    for (size_t i = 0; i < tokens->size(); ++i) {
      EXPECT_EQ((*tokens)[i].kind == TokenKind::kEnd, i + 1 == tokens->size()) << source;
    }
  }
}

TEST(Lexer, TakesTheLongestOperator) {
  EXPECT_EQ(Cut("{{a**b*c//d/e<=f<g==h=i!=j~k}}"),
            "{{ a op** b op* c op// d op/ e op<= f op< g op== h op= i op!= j op~ k}}");
}

TEST(Lexer, ADotBelongsToANumberOnlyBeforeADigit) {
  EXPECT_EQ(Cut("{{ 1.5 }}"), "{{ f1.5}}");
  EXPECT_EQ(Cut("{{ a.0.b }}"), "{{ a op. i0 op. b}}");
  EXPECT_EQ(Cut("{{ 1.x }}"), "{{ i1 op. x}}");
  EXPECT_EQ(Cut("{{ 2e3 }}"), "{{ f2000}}");
}

TEST(Lexer, RefusesNumbersThatItWouldReadWrongly) {
  for (const absl::string_view number :
       {"9223372036854775808", "12ab", "0x10", "1e", "1e999", "1_000"}) {
    EXPECT_EQ(Cut(absl::StrCat("{{", number, "}}"))
                  .rfind("error: chat template line 1: unsupported number", 0),
              0u)
        << number;
  }
  EXPECT_EQ(Cut("{{9223372036854775807}}"), "{{ i9223372036854775807}}");
}

// trim_blocks and lstrip_blocks, and the signs that change them.
TEST(Lexer, ATagTakesTheSpacesBeforeItOnItsLineAndOneNewlineAfterIt) {
  EXPECT_EQ(Cut("a\n  {% x %}\n\nb"), "[a\n]{% x%}[\nb]");
  EXPECT_EQ(Cut("a  {% x %}  b"), "[a  ]{% x%}[  b]");
  EXPECT_EQ(Cut("a\n  {#c#}\nb"), "[a\n][b]");
  EXPECT_EQ(Cut("{% x %}  {% y %}"), "{% x%}[  ]{% y%}");
  EXPECT_EQ(Cut("{% x %}\n  {% y %}"), "{% x%}{% y%}");
}

TEST(Lexer, AnOutputTakesNoWhiteSpaceUnlessItSaysSo) {
  EXPECT_EQ(Cut("a\n  {{ x }}\nb"), "[a\n  ]{{ x}}[\nb]");
  EXPECT_EQ(Cut("a\n  {{- x -}}\n b"), "[a]{{ x}}[b]");
}

TEST(Lexer, AMinusTakesAllWhiteSpaceAndAPlusNone) {
  EXPECT_EQ(Cut("a \n\u00a0{%- x -%} \n b"), "[a]{% x%}[b]");
  EXPECT_EQ(Cut("a\n  {%+ x +%}\nb"), "[a\n  ]{% x%}[\nb]");
  EXPECT_EQ(Cut("a\n{#- c -#}\n b"), "[a][b]");
  EXPECT_EQ(Cut("a\n{# c +#}\nb"), "[a\n][\nb]");
}

TEST(Lexer, ReadsEveryLineEndAsANewlineAndDropsTheLastOne) {
  EXPECT_EQ(Cut("a\r\nb\rc\n\n"), "[a\nb\nc\n]");
  EXPECT_EQ(Cut("a\r\n"), "[a]");
}

TEST(Lexer, RawTextIsText) {
  EXPECT_EQ(Cut("{% raw %}{{ a }}{% if %}{# b #}{% endraw %}c"), "[{{ a }}{% if %}{# b #}][c]");
  EXPECT_EQ(Cut("{%- raw -%}  a  {%- endraw -%}  b"), "[a][b]");
  EXPECT_EQ(Cut("{% rawness %}"), "{% rawness%}");
}

TEST(Lexer, ClosesATagOnlyOutsideBracketsAndStrings) {
  EXPECT_EQ(Cut("{{ {'a': {}} }}"), "{{ op{ 'a' op: op{ op} op}}}");
  EXPECT_EQ(Cut("{{ '}}' }}"), "{{ '}}'}}");
  EXPECT_EQ(Cut("{% x '%}' %}"), "{% x '%}'%}");
}

TEST(Lexer, AnErrorNamesWhatIsWrongAndTheLineWhereItBegan) {
  EXPECT_EQ(Cut("\n\n{{ a\n\n"), "error: chat template line 3: a tag is not closed by '}}'");
  EXPECT_EQ(Cut("\n{% a"), "error: chat template line 2: a tag is not closed by '%}'");
  EXPECT_EQ(Cut("\n{# a"), "error: chat template line 2: unclosed comment '{#'");
  EXPECT_EQ(Cut("\n{% raw %}\n\n"), "error: chat template line 2: unclosed {% raw %}");
  EXPECT_EQ(Cut("{{\n'a }}"), "error: chat template line 2: unclosed string");
  EXPECT_EQ(Cut("{{ a\n ? }}"), "error: chat template line 2: unexpected character '?' in a tag");
}

TEST(Lexer, RefusesBracketsThatDoNotMatch) {
  for (const absl::string_view source : {"{{ (] }}", "{{ a) }}", "{{ [} }}"}) {
    EXPECT_EQ(Cut(source).rfind("error: chat template line 1: ", 0), 0u) << source;
  }
}

TEST(Lexer, EveryTokenKnowsItsLine) {
  const auto tokens = Tokenize("a\nb {# c\n #} {{ d\n.e }}\n{%- f\n%}\n");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  std::vector<std::string> lines;
  for (const Token& token : *tokens) {
    if (token.kind == TokenKind::kName) lines.push_back(absl::StrCat(token.text, token.line));
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"d3", "e4", "f5"}));
}

}  // namespace
}  // namespace baton::jinja
