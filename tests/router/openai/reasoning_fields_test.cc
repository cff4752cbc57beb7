#include "router/openai/reasoning_fields.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "common/rpc/status.h"
#include "router/openai/chat_fields.h"
#include "router/tools/struct_json.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

// The template's variables, or the field that is wrong.
std::string Variables(const std::string& body) {
  const Json json = Json::parse(body);
  JsonFields fields(json);
  v1::ChatInput chat;
  ReadTemplateFields(fields, chat);
  ReadReasoning(fields, "reasoning", chat);
  ReadThinking(fields, "thinking", chat);
  if (fields.status().ok()) return JsonOf(chat.chat_template_kwargs()).dump();
  const auto violations = FieldViolations(fields.status());
  return violations.empty() ? fields.status().ToString() : violations.front().field;
}

TEST(ReasoningFields, AnEffortIsTheTemplatesVariableOfThatName) {
  for (const char* effort : {"minimal", "low", "medium", "high", "xhigh", "max"}) {
    const std::string expected = absl::StrCat(R"({"reasoning_effort":")", effort, "\"}");
    EXPECT_EQ(Variables(absl::StrCat(R"({"reasoning_effort": ")", effort, "\"}")), expected);
    EXPECT_EQ(Variables(absl::StrCat(R"({"reasoning": {"effort": ")", effort, "\"}}")), expected);
  }
  EXPECT_EQ(Variables("{}"), "{}");
  EXPECT_EQ(Variables(R"({"reasoning_effort": null, "reasoning": {"summary": "auto"}})"), "{}");
}

TEST(ReasoningFields, NoEffortAlsoTurnsThinkingOff) {
  const char* const off = R"({"enable_thinking":false,"reasoning_effort":"none"})";
  EXPECT_EQ(Variables(R"({"reasoning_effort": "none"})"), off);
  EXPECT_EQ(Variables(R"({"reasoning": {"effort": "none"}})"), off);
  EXPECT_EQ(Variables(R"({"thinking": {"type": "disabled"}})"), off);
}

TEST(ReasoningFields, AnthropicsThinkingIsTurnedOnOffOrLeftToTheModel) {
  EXPECT_EQ(Variables(R"({"thinking": {"type": "enabled", "budget_tokens": 1024}})"),
            R"({"enable_thinking":true})");
  EXPECT_EQ(Variables(R"({"thinking": {"type": "adaptive"}})"), "{}");
  EXPECT_EQ(Variables(R"({"reasoning_effort": "high", "thinking": {"type": "disabled"}})"),
            R"({"enable_thinking":false,"reasoning_effort":"high"})");
}

TEST(ReasoningFields, ExplicitVariablesGoFirst) {
  EXPECT_EQ(Variables(R"({"reasoning_effort": "none", "reasoning": {"effort": "low"},
      "chat_template_kwargs": {"enable_thinking": true, "reasoning_effort": "odd"}})"),
            R"({"enable_thinking":true,"reasoning_effort":"odd"})");
  EXPECT_EQ(Variables(R"({"thinking": {"type": "enabled"},
      "chat_template_kwargs": {"enable_thinking": false}})"),
            R"({"enable_thinking":false})");
}

TEST(ReasoningFields, AnUnknownValueIsRefusedByName) {
  for (const char* value : {R"("")", R"("High")", R"("off")", "3", "true", "[]"}) {
    EXPECT_EQ(Variables(absl::StrCat(R"({"reasoning_effort": )", value, "}")), "reasoning_effort");
    EXPECT_EQ(Variables(absl::StrCat(R"({"reasoning": {"effort": )", value, "}}")),
              "reasoning.effort");
    EXPECT_EQ(Variables(absl::StrCat(R"({"thinking": {"type": )", value, "}}")), "thinking.type");
  }
  EXPECT_EQ(Variables(R"({"reasoning": "low"})"), "reasoning");
  EXPECT_EQ(Variables(R"({"thinking": {}})"), "thinking.type");
}

}  // namespace
}  // namespace baton
