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

}  // namespace
}  // namespace baton
