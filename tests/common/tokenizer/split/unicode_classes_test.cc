#include "common/tokenizer/split/unicode_classes.h"

#include <cstdint>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

// The characters that the class has beside those of PCRE2's own.
std::set<uint32_t> AddedTo(const char* name) {
  const std::string own = absl::StrCat("\\p{", std::string(name) == "d" ? "Nd" : name, "}");
  const std::string text(UnicodeClass(name).value_or(""));
  EXPECT_TRUE(absl::StartsWith(text, own)) << name << ": " << text;
  std::set<uint32_t> added;
  uint32_t last = 0;
  for (const absl::string_view part : absl::StrSplit(text.substr(own.size()), "\\x{")) {
    if (part.empty()) continue;
    uint32_t character = 0;
    const size_t end = part.find('}');
    EXPECT_TRUE(absl::SimpleHexAtoi(part.substr(0, end), &character)) << part;
    const bool closes_a_range = last != 0;
    for (uint32_t c = closes_a_range ? last : character; c <= character; ++c) added.insert(c);
    last = absl::EndsWith(part, "-") ? character : 0;
  }
  return added;
}

TEST(UnicodeClasses, LettersAreThoseOfTheirKinds) {
  std::set<uint32_t> kinds;
  size_t count = 0;
  for (const char* kind : {"Lu", "Ll", "Lt", "Lm", "Lo"}) {
    const std::set<uint32_t> added = AddedTo(kind);
    kinds.insert(added.begin(), added.end());
    count += added.size();
  }
  EXPECT_EQ(kinds.size(), count) << "a letter is of one kind";
  EXPECT_EQ(kinds, AddedTo("L"));
}

TEST(UnicodeClasses, DecimalDigitsAreNumbers) {
  const std::set<uint32_t> digits = AddedTo("Nd");
  const std::set<uint32_t> numbers = AddedTo("N");
  EXPECT_EQ(digits, AddedTo("d"));
  EXPECT_EQ(digits.size() % 10, 0u);
  for (const uint32_t digit : digits) EXPECT_EQ(numbers.count(digit), 1u) << digit;
}

TEST(UnicodeClasses, NoCharacterIsInTwoOfThem) {
  std::set<uint32_t> all;
  size_t count = 0;
  for (const char* name : {"L", "M", "N", "P", "S"}) {
    const std::set<uint32_t> added = AddedTo(name);
    EXPECT_FALSE(added.empty()) << name;
    all.insert(added.begin(), added.end());
    count += added.size();
  }
  EXPECT_EQ(all.size(), count);
}

TEST(UnicodeClasses, OthersAreNotKnown) {
  EXPECT_TRUE(UnicodeClass("s").has_value());
  for (const char* name : {"", "l", "w", "Han", "LL"}) {
    EXPECT_FALSE(UnicodeClass(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace baton
