#include "router/front/model_names.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/rpc/limits.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

bool Takes(const std::string& pattern, const std::string& name) {
  return ModelNames{.served = {"m"}, .aliases = {pattern}}.Check(name).ok();
}

TEST(ModelNames, ExactNamesAndNoNameAreTaken) {
  const ModelNames names{.served = {"a", "org/b"}};
  for (const char* name : {"", "a", "org/b"}) EXPECT_TRUE(names.Check(name).ok()) << name;
  for (const char* name : {"A", "b", "a ", "org/", "*"}) {
    EXPECT_TRUE(absl::IsNotFound(names.Check(name))) << name;
  }
}

TEST(ModelNames, APatternMatchesWholeNames) {
  for (const char* name : {"claude-", "claude-sonnet-4-5", "claude-a/b c"}) {
    EXPECT_TRUE(Takes("claude-*", name)) << name;
  }
  for (const char* name : {"claude", "my-claude-x", "Claude-x"}) {
    EXPECT_FALSE(Takes("claude-*", name)) << name;
  }
  EXPECT_TRUE(Takes("*", "anything"));
  EXPECT_TRUE(Takes("gpt-?o*mini", "gpt-4o-2024-mini"));
  EXPECT_FALSE(Takes("gpt-?o*mini", "gpt-4o-2024-minis"));
  EXPECT_TRUE(Takes("*ab*ab", "abababab"));
  EXPECT_FALSE(Takes("*ab*ab", "ab"));
  EXPECT_TRUE(Takes("a**b", "ab"));
  EXPECT_FALSE(Takes("a?", "a"));
  EXPECT_TRUE(Takes("mod\xc3\xa8le-?", "mod\xc3\xa8le-\xc3\xa9")) << "a character is no byte";
  EXPECT_FALSE(Takes("mod?le", "mod\xc3\xa8\xc3\xa8le"));
  EXPECT_TRUE(Takes("exact", "exact"));
  EXPECT_FALSE(Takes("*", std::string(kMaxNameBytes + 1, 'a')));
}

TEST(ModelNames, AnUnknownNameIsAnsweredWithThoseThatAreThere) {
  EXPECT_EQ(ModelNames{.served = {"a"}}.Check("x").message(),
            "model 'x' is not served here; served is 'a'");
  EXPECT_EQ((ModelNames{.served = {"a", "b"}, .aliases = {"claude-*"}}.Check("x").message()),
            "model 'x' is not served here; served are 'a', 'b', and any name like 'claude-*'");
  ModelNames many;
  for (char c = 'a'; c <= 'h'; ++c) many.served.push_back(std::string(200, c));
  const std::string message(many.Check(std::string(1000, 'x')).message());
  EXPECT_LT(message.size(), 2000u) << "it fits into a header of gRPC";
  EXPECT_THAT(message, AllOf(HasSubstr("aaa"), HasSubstr(" and 3 more"), Not(HasSubstr("hhh"))));
}

}  // namespace
}  // namespace baton
