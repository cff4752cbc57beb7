#include "common/grammar/string_pattern.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(StringPatterns, AreWrittenWithWhatXGrammarReadsRight) {
  for (const auto& [pattern, sound] : {
           std::pair("^a(b[0-9]+)?$", "^a(b[0-9]+){0,1}$"),
           std::pair("a??b*?c+?d{2,3}?", "a{0,1}b*c+d{2,3}"),
           std::pair(R"(\??[?]?(?:x\)?)?)", R"(\?{0,1}[?]{0,1}(?:x\){0,1}){0,1})"),
           std::pair("[]a?", "[]a{0,1}"),
           std::pair("a{2,}", "a{2,}"),
           std::pair("(ab?){0,}(cd){1,}", "(ab{0,1})*(cd)+"),
           std::pair("(a(b)){3,}", "(a(b)){3}(a(b))*"),
           std::pair("[a-z]{0,200}x{129}_", "[a-z]{0,200}x{129}_"),
           std::pair(R"(\d{1,200}\.{200}\x41{2,})", R"(\d{1,200}\.{200}\x41{2,})"),
           std::pair("(a.){128}", "(a.){128}"),
       }) {
    const absl::StatusOr<std::string> written = SoundPattern(pattern);
    ASSERT_TRUE(written.ok()) << pattern << ": " << written.status();
    EXPECT_EQ(*written, sound);
  }
}

TEST(StringPatterns, OfLongRepetitionsOfAnyCharactersAreRefused) {
  for (const char* atom : {".", "[^a]", R"(\s)", R"(\S)", "(ab)", "[!-~]", "[A-z]", R"([\w"])",
                           "\"", R"(\\)", R"([a\"])"}) {
    for (const char* bounds : {"{129}", "{0,129}", "{129,}"}) {
      const std::string pattern = absl::StrCat(atom, bounds);
      EXPECT_EQ(SoundPattern(pattern).status().message(),
                "only a plain character or a character class that JSON need not escape may be "
                "repeated more than 128 times")
          << pattern;
    }
  }
}

TEST(StringPatterns, ThatAreNoneAreRefused) {
  for (const char* pattern : {"a)", "a{", "a{1", "a{x}", "a{1,x}", "a{,2}"}) {
    EXPECT_FALSE(SoundPattern(pattern).ok()) << pattern;
  }
  std::string nested = "a";
  for (int i = 0; i < 20; ++i) nested = absl::StrCat("(", nested, "){9,}");
  EXPECT_EQ(SoundPattern(nested).status().message(), "it is too long");
  for (const char* cut : {"[a", "\\", "(", "\\x4", "\\u{12", "[a\\"}) {
    EXPECT_TRUE(SoundPattern(cut).ok()) << cut;  // the library tells what is wrong with them
  }
}

}  // namespace
}  // namespace baton
