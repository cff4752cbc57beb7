#include "router/openai/tool_fields.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/rpc/limits.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

struct ReadToolsResult {
  v1::ChatInput chat;
  ToolTable table;
  std::string wrong;  // the field that is blamed; empty: none
  std::string why;
};

ReadToolsResult ToolsOf(const std::string& body, ToolStyle style) {
  const Json json = Json::parse(body);
  JsonFields fields(json);
  ReadToolsResult result;
  ReadToolList(fields, style, result.chat, result.table);
  ReadFunctionList(fields, result.chat, result.table);
  RefuseHostedAlone(fields, result.chat, result.table);
  ReadToolChoice(fields, "tool_choice", style, result.chat, result.table);
  const auto violations = FieldViolations(fields.status());
  if (!violations.empty()) {
    result.wrong = violations.front().field;
    result.why = violations.front().description;
  }
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

// The names by which the model is shown the tools of a request to /v1/responses.
std::vector<std::string> NamesOf(const ReadToolsResult& result) {
  std::vector<std::string> names;
  for (const v1::Tool& tool : result.chat.tools()) names.push_back(tool.name());
  return names;
}

ReadToolsResult Beside(const std::string& tools, const std::string& choice = "null") {
  return ToolsOf(absl::StrCat(R"({"tools": [)", tools, R"(], "tool_choice": )", choice, "}"),
                 ToolStyle::kBeside);
}

std::string Namespace(const std::string& name, const std::string& tools) {
  return absl::StrCat(R"({"type": "namespace", "name": ")", name,
                      R"(", "description": "d", "tools": [)", tools, "]}");
}
std::string Function(const std::string& name) {
  return absl::StrCat(R"({"type": "function", "name": ")", name, R"("})");
}

TEST(ToolFields, ToolsOfANamespaceHaveFlatNamesOfWhichTheTableKnowsTheParts) {
  const ReadToolsResult result = Beside(absl::StrCat(
      Function("run"), ",",
      Namespace("mcp__clock", absl::StrCat(Function("time_in"), ",", Function("stop"))), ",",
      Namespace("edit", R"({"type": "custom", "name": "write"})")));
  EXPECT_EQ(result.wrong, "") << result.why;
  EXPECT_THAT(NamesOf(result), testing::ElementsAre("run", "mcp__clock__time_in",
                                                    "mcp__clock__stop", "edit__write"));
  EXPECT_EQ(result.table.Find("mcp__clock__time_in")->space, "mcp__clock");
  EXPECT_EQ(result.table.Find("mcp__clock__time_in")->name, "time_in");
  EXPECT_TRUE(result.table.Find("edit__write")->is_custom);
}

TEST(ToolFields, TwoEqualFlatNamesAreRefusedByName) {
  const auto twice = [](const std::string& first, const std::string& second) {
    const ReadToolsResult result = Beside(absl::StrCat(first, ",", second));
    EXPECT_THAT(result.why, HasSubstr("is the name of another tool too"));
    return result.wrong;
  };
  EXPECT_EQ(twice(Function("a__b"), Namespace("a", Function("b"))), "tools[1].tools[0].name");
  EXPECT_EQ(twice(Namespace("a", Function("b")), Function("a__b")), "tools[1].name");
  EXPECT_EQ(twice(Namespace("a", Function("b__c")), Namespace("a__b", Function("c"))),
            "tools[1].tools[0].name");
  EXPECT_EQ(twice(Function("f"), Function("f")), "tools[1].name");
  EXPECT_THAT(Beside(absl::StrCat(Function("a__b"), ",", Namespace("a", Function("b")))).why,
              HasSubstr("'a__b' with its namespace"));
}

TEST(ToolFields, AFlatNameObeysTheRuleOfNames) {
  const auto wrong = [](const std::string& space, const std::string& name) {
    const ReadToolsResult result = Beside(Namespace(space, Function(name)));
    EXPECT_TRUE(result.wrong.empty() ||
                result.why.find("must be 1 to 128 letters") != std::string::npos)
        << result.why;
    return result.wrong;
  };
  EXPECT_EQ(wrong(std::string(64, 's'), std::string(62, 'n')), "");
  EXPECT_EQ(wrong(std::string(64, 's'), std::string(63, 'n')), "tools[0].tools[0].name");
  EXPECT_EQ(wrong("a b", "f"), "tools[0].name");
  EXPECT_EQ(wrong("", "f"), "tools[0].name");
  EXPECT_EQ(wrong("a", "f g"), "tools[0].tools[0].name");
  EXPECT_EQ(Beside(Namespace("a", R"({"type": "function"})")).wrong, "tools[0].tools[0].name");
  EXPECT_EQ(Beside(R"({"type": "namespace", "name": "a"})").wrong, "tools[0].tools");
  EXPECT_EQ(Beside(R"({"type": "namespace", "tools": []})").wrong, "tools[0].name");
}

TEST(ToolFields, AChoiceNamesAToolByItsPartsOrFlat) {
  const std::string tools =
      absl::StrCat(Function("run"), ",", Namespace("mcp__clock", Function("time_in")));
  const auto named = [&](const std::string& choice) {
    const ReadToolsResult result = Beside(tools, choice);
    return result.wrong.empty() ? result.chat.tool_choice().name() : result.wrong;
  };
  EXPECT_EQ(named(R"({"type": "function", "name": "time_in", "namespace": "mcp__clock"})"),
            "mcp__clock__time_in");
  EXPECT_EQ(named(R"({"type": "function", "name": "mcp__clock__time_in"})"), "mcp__clock__time_in");
  EXPECT_EQ(named(R"({"type": "function", "name": "time_in"})"), "tool_choice.name");
  EXPECT_EQ(named(R"({"type": "function", "name": "run", "namespace": "mcp__clock"})"),
            "tool_choice.name");
  const ReadToolsResult allowed = Beside(tools, R"({"type": "allowed_tools", "mode": "auto",
      "tools": [{"type": "function", "name": "time_in", "namespace": "mcp__clock"},
                {"type": "web_search"}]})");
  EXPECT_EQ(allowed.wrong, "");
  EXPECT_THAT(NamesOf(allowed), testing::ElementsAre("mcp__clock__time_in"));
  EXPECT_THAT(allowed.table.Warning(), HasSubstr("web_search"));
}

TEST(ToolFields, HostedToolsAndUnknownTypesAreLeftOutBesideOthers) {
  for (const char* type : {"web_search", "web_search_preview_2025_03_11", "image_generation",
                           "tool_search", "local_shell", "file_search", "code_interpreter",
                           "computer_use_preview", "mcp", "of_tomorrow"}) {
    const std::string hosted = absl::StrCat(R"({"type": ")", type, R"(", "more": {"a": 1}})");
    const ReadToolsResult beside = Beside(absl::StrCat(hosted, ",", Function("run"), ",", hosted));
    EXPECT_EQ(beside.wrong, "") << beside.why;
    EXPECT_THAT(NamesOf(beside), testing::ElementsAre("run"));
    EXPECT_THAT(beside.table.Warning(), HasSubstr(type));

    const ReadToolsResult alone = Beside(absl::StrCat(hosted, ",", hosted));
    EXPECT_EQ(alone.wrong, "tools[0].type");
    EXPECT_EQ(alone.why, HostedToolFault(type));
    const ReadToolsResult chosen = Beside(absl::StrCat(hosted, ",", Function("run")), hosted);
    EXPECT_EQ(chosen.wrong, "tool_choice.type");
    EXPECT_EQ(chosen.why, HostedToolFault(type));
    const ReadToolsResult allowed = Beside(
        Function("run"),
        absl::StrCat(R"({"type": "allowed_tools", "mode": "auto", "tools": [)", hosted, "]}"));
    EXPECT_EQ(allowed.wrong, "tool_choice.tools[0].type");
    EXPECT_EQ(allowed.why, HostedToolFault(type));
  }
  EXPECT_EQ(Beside(Namespace("a", R"({"type": "web_search"})")).wrong, "tools[0].tools[0].type");
  EXPECT_EQ(Beside(Namespace("a", Namespace("b", Function("f")))).wrong, "tools[0].tools[0].type");
  EXPECT_EQ(Beside(R"({"name": "f"})").wrong, "tools[0].type") << "it has no type";
}

TEST(ToolFields, ANameOfAnEarlierCallIsJoinedWhetherItsToolIsThereOrNot) {
  const auto name = [](const std::string& call) {
    const Json json = Json::parse(call);
    JsonFields fields(json, "input[3]");
    std::string flat = ReadCallName(fields);
    const auto violations = FieldViolations(fields.status());
    return violations.empty() ? flat : violations.front().field;
  };
  EXPECT_EQ(name(R"({"name": "time_in", "namespace": "mcp__clock"})"), "mcp__clock__time_in");
  EXPECT_EQ(name(R"({"name": "mcp__clock__time_in"})"), "mcp__clock__time_in");
  EXPECT_EQ(name(R"({"name": "time in", "namespace": "a/b"})"), "a_b__time_in");
  EXPECT_EQ(name(absl::StrCat(R"({"name": "f", "namespace": ")", std::string(200, 's'), "\"}")),
            std::string(128, 's'));
  EXPECT_EQ(name(R"({"name": "time in"})"), "input[3].name");
  EXPECT_EQ(name(R"({"namespace": "a"})"), "input[3].name");
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
