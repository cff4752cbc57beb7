#include "common/base/terminal_text.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

// Returns what a terminal is shown of these pieces of a text and of the newline behind them.
std::string Streamed(const std::vector<std::string>& pieces) {
  TerminalFilter filter;
  std::string shown;
  for (const std::string& piece : pieces) shown += filter.Filter(piece);
  return shown + filter.Filter("\n");
}

TEST(ShownText, EscapesWhatATerminalInterprets) {
  EXPECT_EQ(ShownText("\x1b]0;title\a"), "\\u001b]0;title\\u0007");
  EXPECT_EQ(ShownText("\x1b[2J\x1b]52;c;eA==\a"), "\\u001b[2J\\u001b]52;c;eA==\\u0007");
  EXPECT_EQ(ShownText("\b\v\f\x7f"), "\\u0008\\u000b\\u000c\\u007f");
  EXPECT_EQ(ShownText(std::string("a\0b", 3)), "a\\u0000b");
}

TEST(ShownText, EscapesControlCharactersOfTwoBytesToo) {
  EXPECT_EQ(ShownText("\u0080\u009b2J\u009f"), "\\u0080\\u009b2J\\u009f");
  EXPECT_EQ(ShownText("\u00a0\u00ff"), "\u00a0\u00ff");
}

TEST(ShownText, EscapesWhatReordersOrBreaksALine) {
  EXPECT_EQ(ShownText("\u2028\u2029\u202a\u202e"), "\\u2028\\u2029\\u202a\\u202e");
  EXPECT_EQ(ShownText("\u2066\u2069"), "\\u2066\\u2069");
  EXPECT_EQ(ShownText("\u2027\u202f\u2065\u206a"), "\u2027\u202f\u2065\u206a");
}

TEST(ShownText, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(ShownText("a\x9b\xff"), "a\\u009b\\u00ff");
  EXPECT_EQ(ShownText("\xe2\x82 \xf0\x9f\x98"), "\\u00e2\\u0082 \\u00f0\\u009f\\u0098");
}

TEST(ShownText, KeepsTextInAllLanguagesWithItsLines) {
  const std::string text =
      "Gr\u00fc\u00dfe \u4f60\u597d \u05e9\u05dc\u05d5\u05dd \U0001F600\n\tx\n";
  EXPECT_EQ(ShownText(text), text);
}

TEST(ShownText, KeepsOfALineEndOfTwoBytesTheNewline) {
  EXPECT_EQ(ShownText("a\r\nb"), "a\nb");
  EXPECT_EQ(ShownText("hidden\rseen\r\r\n\r"), "hidden\\u000dseen\\u000d\n\\u000d");
}

TEST(ShownText, JsonStaysTheSameJson) {
  const nlohmann::json json = {{"text", "\x1b[2J\u009b2J\x7f\u202e\r\n \u00fc"}};
  const std::string shown = ShownText(json.dump(2) + "\n");
  EXPECT_EQ(shown, ShownText(shown));
  EXPECT_EQ(nlohmann::json::parse(shown), json);
}

TEST(ShownLine, IsOneLine) {
  EXPECT_EQ(ShownLine("a\nError: forged\r\n\tb\u2028\u00fc"),
            "a\\u000aError: forged\\u000d\\u000a\\u0009b\\u2028\u00fc");
}

TEST(ShownLine, IsBoundedAndEndsWithAWholeCharacter) {
  const std::string full(kMaxShownLineBytes, 'x');
  EXPECT_EQ(ShownLine(full), full);
  EXPECT_EQ(ShownLine(full + "y"), full + "...");
  EXPECT_EQ(ShownLine(full.substr(1) + "\u00fc"), full.substr(1) + "...");
  const std::string escaped = ShownLine(std::string(60 << 20, '\x1b'));
  EXPECT_EQ(escaped.size(), 6 * kMaxShownLineBytes + 3);
  EXPECT_THAT(escaped, StartsWith("\\u001b"));
  EXPECT_THAT(escaped, EndsWith("..."));
}

TEST(TerminalFilter, ACharacterThatPiecesSplitStaysWhole) {
  const std::string text = "\u00fc \u20ac \U0001F600 \u009b \u202e \x1b[2J";
  const std::string shown = "\u00fc \u20ac \U0001F600 \\u009b \\u202e \\u001b[2J\n";
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); ++second) {
      EXPECT_EQ(Streamed({text.substr(0, first), text.substr(first, second - first),
                          text.substr(second)}),
                shown)
          << first << " " << second;
    }
  }
}

TEST(TerminalFilter, ALineEndThatPiecesSplitIsOneNewline) {
  EXPECT_EQ(Streamed({"a\r", "\nb"}), "a\nb\n");
  EXPECT_EQ(Streamed({"a\r", "b"}), "a\\u000db\n");
  EXPECT_EQ(Streamed({"a", "\r"}), "a\n");
}

TEST(TerminalFilter, ShowsEachPieceAtOnce) {
  TerminalFilter filter;
  EXPECT_EQ(filter.Filter("Hel"), "Hel");
  EXPECT_EQ(filter.Filter("lo \xf0\x9f"), "lo ");
  EXPECT_EQ(filter.Filter("\x98"), "");
  EXPECT_EQ(filter.Filter("\x80!"), "\U0001F600!");
}

TEST(TerminalFilter, ACharacterThatNeverEndsIsEscaped) {
  EXPECT_EQ(Streamed({"a\xf0", "\x9f"}), "a\\u00f0\\u009f\n");
  EXPECT_EQ(Streamed({"\xc3", "("}), "\\u00c3(\n");
}

}  // namespace
}  // namespace baton
