#include "router/tools/tool_table.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ToolTable, AFlatNameIsFoundAsItWasJoinedAndNeverCut) {
  ToolTable table;
  EXPECT_TRUE(table.Add({.name = "run"}));
  EXPECT_FALSE(table.translates());
  EXPECT_TRUE(table.Add({.space = "mcp__clock", .name = "time__in"}));
  EXPECT_TRUE(table.Add({.space = "mcp", .name = "clock__time"}));
  EXPECT_TRUE(table.Add({.space = "a__", .name = "b"}));
  EXPECT_TRUE(table.Add({.space = "a", .name = "b"})) << "a__b and a____b are two names";
  EXPECT_TRUE(table.translates());
  const ClientTool* const tool = table.Find("mcp__clock__time__in");
  ASSERT_NE(tool, nullptr);
  EXPECT_EQ(tool->space, "mcp__clock");
  EXPECT_EQ(tool->name, "time__in");
  EXPECT_EQ(table.Find("run")->space, "");
  EXPECT_EQ(table.Find("time__in"), nullptr);
}

TEST(ToolTable, TwoToolsOfOneFlatNameDoNotStandBesideEachOther) {
  ToolTable table;
  EXPECT_TRUE(table.Add({.space = "a", .name = "b__c"}));
  EXPECT_FALSE(table.Add({.space = "a__b", .name = "c"}));
  EXPECT_FALSE(table.Add({.name = "a__b__c"}));
  EXPECT_EQ(table.Find("a__b__c")->space, "a");
}

TEST(ToolTable, ACustomToolIsTranslatedToo) {
  ToolTable table;
  EXPECT_TRUE(table.Add({.name = "apply_patch", .is_custom = true}));
  EXPECT_TRUE(table.translates());
}

TEST(ToolTable, AWarningNamesEachTypeOnce) {
  ToolTable table;
  EXPECT_THAT(table.Warning(), IsEmpty());
  EXPECT_FALSE(table.first_hosted().has_value());
  table.LeaveOut("web_search_call");
  table.LeaveOutTool({.field = "tools[8].type", .type = "web_search"});
  table.LeaveOutTool({.field = "tools[9].type", .type = "image_generation"}, "paint");
  table.LeaveOut("web_search_call");
  EXPECT_EQ(table.Warning(),
            "left out, since Baton runs no hosted tools: image_generation, web_search, "
            "web_search_call");
  EXPECT_EQ(table.first_hosted()->field, "tools[8].type");
  ASSERT_NE(table.HostedTypeOf("paint"), nullptr);
  EXPECT_EQ(*table.HostedTypeOf("paint"), "image_generation");
  EXPECT_EQ(table.HostedTypeOf("draw"), nullptr);
}

TEST(ToolTable, AWarningFitsAHeaderWhateverTheTypes) {
  ToolTable table;
  for (int i = 0; i < 20; ++i) {
    table.LeaveOut(absl::StrCat("a\r\nb: \"\xc3\xa9\"", i, std::string(1000, '\n')));
  }
  const std::string warning = table.Warning();
  EXPECT_LT(warning.size(), 4096u);
  for (const char byte : warning) EXPECT_TRUE(byte >= ' ' && byte <= '~') << warning;
  EXPECT_THAT(warning, HasSubstr(" and more"));
}

}  // namespace
}  // namespace baton
