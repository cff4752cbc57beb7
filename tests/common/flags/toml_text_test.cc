#include "common/flags/toml_text.h"

#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(TomlText, IsReadAsTheTableThatItSays) {
  const auto table = ParseToml("f.toml", "a = 'x'\n[server]\nports = [1, 2]\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ((*table)["a"].value<std::string>(), "x");
  EXPECT_EQ((*table)["server"]["ports"][1].value<int64_t>(), 2);
  EXPECT_FALSE((*table)["b"]);
  EXPECT_TRUE(ParseToml("f.toml", "# only a comment\n")->empty());
}

TEST(TomlText, ThatIsNoTomlIsRefusedWithFileLineAndColumn) {
  const absl::Status status = ParseToml("f.toml", "a = 1\n\nb = [1, 2\nc = 3\n").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              testing::MatchesRegex("f\\.toml:4:[0-9]+: not TOML: .*; write lines of key = value"));
}

// a.a.a, with so many parts.
std::string DottedKey(int parts) {
  std::string key = "a";
  for (int i = 1; i < parts; ++i) key += i % 2 == 0 ? ".a" : " . \"b\"";
  return key;
}

TEST(TomlText, AKeyHasFewParts) {
  for (const char* form : {"$ = 1\n", "[$]\n", "[[ $ ]]\n", "a = {$ = 1}\n"}) {
    const std::string line(form);
    const size_t at = line.find('$');
    const auto text = [&](int parts) {
      return "# no key\n\n" + line.substr(0, at) + DottedKey(parts) + line.substr(at + 1);
    };
    EXPECT_TRUE(ParseToml("f.toml", text(32)).ok()) << form;
    for (const int parts : {33, 100'000}) {
      EXPECT_EQ(ParseToml("f.toml", text(parts)).status().message(),
                "f.toml:3: has a key of more than 32 dotted parts; shorten it")
          << form;
    }
  }
}

TEST(TomlText, PointsOfNumbersStringsAndCommentsAreNoParts) {
  std::string text = "# " + std::string(100, '.') + "\nnumbers = [";
  for (int i = 0; i < 100; ++i) text += "1.5, ";
  text += "]\na = \"" + std::string(100, '.') + "\\\"" + std::string(100, '.') + "\"\nb = '" +
          std::string(100, '.') + "'\n";
  const auto table = ParseToml("f.toml", text);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ((*table)["a"].value<std::string>()->size(), 201u);
}

}  // namespace
}  // namespace baton
