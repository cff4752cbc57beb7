#include "common/tokenizer/split/regex_dialect.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/tokenizer/split/split_expression.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

// The first match of `expression` in `text`, or "none".
std::string FirstMatch(absl::string_view expression, absl::string_view text) {
  const auto made = SplitExpression::Create(expression);
  if (!made.ok()) return std::string(made.status().message());
  std::string found = "none";
  SplitBudget budget(text.size());
  const absl::Status status = made->Split(text, budget, [&](absl::string_view piece, bool match) {
    if (match && found == "none") found = std::string(piece);
  });
  return status.ok() ? found : std::string(status.message());
}

TEST(RegexDialect, ClassesAreThoseOfUnicode16InAndOutsideOfBrackets) {
  // An upper and a lower case letter, a mark and a digit of Unicode 15 and 16.
  EXPECT_EQ(FirstMatch(R"(\p{Lu}+)", "\u1C89A\u1C8A"), "\u1C89A");
  EXPECT_EQ(FirstMatch(R"([\p{Ll}x]+)", "\u1C8Axa\u1C89"), "\u1C8Axa");
  EXPECT_EQ(FirstMatch(R"(\p{M})", "a\u0897"), "\u0897");
  EXPECT_EQ(FirstMatch(R"(\P{L}+)", "\u1C8A1\u1C8A"), "1");
  EXPECT_EQ(FirstMatch(R"([^\p{L}]+)", "\u1C8A1\u1C8A"), "1");
  EXPECT_EQ(FirstMatch(R"(\d)", "\U00010D40"), "\U00010D40");
  EXPECT_EQ(FirstMatch(R"(\D+)", "1ab2"), "ab");
  EXPECT_EQ(FirstMatch(R"(\s+)", "a\u180E\u3000"), "\u3000");
  EXPECT_EQ(FirstMatch(R"(\S+)", " \u180E\u3000"), "\u180E");
}

TEST(RegexDialect, AnchorsAreThoseOfLines) {
  EXPECT_EQ(FirstMatch("b$", "ab\nb"), "b");
  EXPECT_EQ(FirstMatch("^b.", "a\nbc"), "bc");
  EXPECT_EQ(FirstMatch("(?i:ab)c", "ABC ABc"), "ABc");
  EXPECT_EQ(FirstMatch("(a)(b)", "ab"), "ab");
}

TEST(RegexDialect, RefusesWhatMayMeanSomethingElse) {
  for (const char* expression :
       {R"(\h)",     R"(\w)",      R"(\b)",       R"(\R)",   R"(\1)",   R"(\x{41})",  R"(\p{Han})",
        R"(\p{^L})", R"(\pL)",     "[[:alpha:]]", "[a&&b]",  R"([\S])", R"([\P{L}])", "(?x)a",
        "(?i)a",     "(?<name>a)", "(*ACCEPT)",   "a{1,3}+", "[]a]",    R"(\p{s})"}) {
    const auto translated = PcreFromOniguruma(expression);
    EXPECT_EQ(translated.status().code(), absl::StatusCode::kUnimplemented) << expression;
    EXPECT_THAT(std::string(translated.status().message()), HasSubstr("at offset")) << expression;
  }
  EXPECT_FALSE(PcreFromOniguruma("[a").ok());
  EXPECT_FALSE(PcreFromOniguruma("\\").ok());
  EXPECT_FALSE(PcreFromOniguruma(std::string(kMaxExpressionBytes + 1, 'a')).ok());
  EXPECT_THAT(std::string(SplitExpression::Create("(a").status().message()),
              HasSubstr("cannot be compiled"));
}

TEST(RegexDialect, AQuotedExpressionMatchesItsTextAlone) {
  const std::string text = "a.[(*+?^$|\\{}#- 中\n";
  EXPECT_EQ(FirstMatch(QuotedExpression(text), "x" + text), text);
}

}  // namespace
}  // namespace baton
