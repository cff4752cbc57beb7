#include "router/openai/tool_fields.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "common/rpc/limits.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

struct ReadToolsResult {
  v1::ChatInput chat;
  std::string wrong;  // the field that is blamed; empty: none
};

ReadToolsResult ToolsOf(const std::string& body, ToolStyle style) {
  const Json json = Json::parse(body);
  JsonFields fields(json);
  ReadToolsResult result;
  ReadToolList(fields, style, result.chat);
  ReadFunctionList(fields, result.chat);
  ReadToolChoice(fields, "tool_choice", style, result.chat);
  const auto violations = FieldViolations(fields.status());
  if (!violations.empty()) result.wrong = violations.front().field;
  return result;
}

// With the tools f and g, as each API writes them.
ReadToolsResult ChoiceOf(const std::string& choice, ToolStyle style = ToolStyle::kInside) {
  const bool inside = style == ToolStyle::kInside;
  std::string tools;
  for (const char* name : {"f", "g"}) {
    const std::string tool = absl::StrCat(R"("name": ")", name, R"(")");
    absl::StrAppend(&tools, tools.empty() ? "" : ",", R"({"type": "function", )",
                    inside ? absl::StrCat(R"("function": {)", tool, "}") : tool, "}");
  }
  return ToolsOf(absl::StrCat(R"({"tools": [)", tools, R"(], "tool_choice": )", choice, "}"),
                 style);
}

TEST(ToolFields, BothStylesAndTheOldOneSayTheSameOfATool) {
  const std::string tool =
      R"("name": "f", "description": "Does.", "parameters": {"type": "object", "a": 1})";
  for (const ReadToolsResult& result :
       {ToolsOf(R"({"tools": [{"type": "function", "function": {)" + tool + "}}]}",
                ToolStyle::kInside),
        ToolsOf(R"({"tools": [{"type": "function", )" + tool + "}]}", ToolStyle::kBeside),
        ToolsOf(R"({"functions": [{)" + tool + "}]}", ToolStyle::kInside)}) {
    EXPECT_EQ(result.wrong, "");
    ASSERT_EQ(result.chat.tools_size(), 1);
    EXPECT_EQ(result.chat.tools(0).name(), "f");
    EXPECT_EQ(result.chat.tools(0).description(), "Does.");
    EXPECT_EQ(result.chat.tools(0).parameters(), R"({"type":"object","a":1})");
  }
}

TEST(ToolFields, AModeIsAWord) {
  EXPECT_EQ(ChoiceOf(R"("auto")").chat.tool_choice().mode(), v1::ToolChoice::MODE_AUTO);
  EXPECT_EQ(ChoiceOf(R"("none")").chat.tool_choice().mode(), v1::ToolChoice::MODE_NONE);
  EXPECT_EQ(ChoiceOf(R"("required")").chat.tool_choice().mode(), v1::ToolChoice::MODE_REQUIRED);
  EXPECT_EQ(ChoiceOf(R"("any")").wrong, "tool_choice");
  EXPECT_EQ(ChoiceOf("3").wrong, "tool_choice");
}

TEST(ToolFields, ANamedToolStandsWhereTheStyleHasIt) {
  const auto named = [](const std::string& choice, ToolStyle style) {
    const ReadToolsResult result = ChoiceOf(choice, style);
    const bool is_named = result.chat.tool_choice().mode() == v1::ToolChoice::MODE_NAMED;
    return is_named && result.wrong.empty() ? result.chat.tool_choice().name() : result.wrong;
  };
  const std::string inside = R"({"type": "function", "function": {"name": "g"}})";
  const std::string beside = R"({"type": "function", "name": "g"})";
  EXPECT_EQ(named(inside, ToolStyle::kInside), "g");
  EXPECT_EQ(named(beside, ToolStyle::kBeside), "g");
  EXPECT_EQ(named(R"({"name": "g"})", ToolStyle::kInside), "g") << "the old form";
  EXPECT_EQ(named(inside, ToolStyle::kBeside), "tool_choice.name");
  EXPECT_EQ(named(R"({"type": "function"})", ToolStyle::kInside), "tool_choice.function.name");
}

TEST(ToolFields, OnlyAllowedToolsAreKept) {
  const ReadToolsResult inside = ChoiceOf(R"({"type": "allowed_tools", "allowed_tools": {
      "mode": "required", "tools": [{"type": "function", "function": {"name": "g"}}]}})");
  const ReadToolsResult beside = ChoiceOf(R"({"type": "allowed_tools", "mode": "required",
      "tools": [{"type": "function", "name": "g"}]})",
                                          ToolStyle::kBeside);
  for (const ReadToolsResult& result : {inside, beside}) {
    EXPECT_EQ(result.wrong, "");
    EXPECT_EQ(result.chat.tool_choice().mode(), v1::ToolChoice::MODE_REQUIRED);
    ASSERT_EQ(result.chat.tools_size(), 1);
    EXPECT_EQ(result.chat.tools(0).name(), "g");
  }
  const auto wrong = [](const std::string& tools) {
    return ChoiceOf(
               absl::StrCat(R"({"type": "allowed_tools", "mode": "auto", "tools": )", tools, "}"),
               ToolStyle::kBeside)
        .wrong;
  };
  EXPECT_EQ(wrong("[]"), "tool_choice.tools");
  EXPECT_EQ(wrong(R"([{"name": "h"}])"), "tool_choice.tools");
  EXPECT_EQ(wrong(R"([{"name": "g"}, {"name": "g"}])"), "tool_choice.tools");
}

TEST(ToolFields, AChoiceThatNeedsToolsIsRefusedWithoutThem) {
  const auto wrong = [](const std::string& choice) {
    return ToolsOf(R"({"tool_choice": )" + choice + "}", ToolStyle::kInside).wrong;
  };
  EXPECT_EQ(wrong(R"("required")"), "tool_choice");
  EXPECT_EQ(wrong(R"({"type": "function", "function": {"name": "f"}})"), "tool_choice");
  EXPECT_EQ(wrong(R"("auto")"), "");
}

TEST(ToolFields, AnErrorNamesTheTool) {
  const auto wrong = [](const std::string& tools) {
    return ToolsOf(R"({"tools": )" + tools + "}", ToolStyle::kInside).wrong;
  };
  EXPECT_EQ(wrong("[3]"), "tools[0]");
  EXPECT_EQ(wrong(R"([{"type": "web_search"}])"), "tools[0].type");
  EXPECT_EQ(wrong(R"([{"type": "function"}])"), "tools[0].function");
  EXPECT_EQ(wrong(R"([{"type": "function", "function": {}}])"), "tools[0].function.name");
  EXPECT_EQ(wrong(Json(Json::array_t(kMaxTools + 1)).dump()), "tools");
}

}  // namespace
}  // namespace baton
