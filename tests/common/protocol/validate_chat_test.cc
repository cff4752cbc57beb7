#include "common/protocol/validate_chat.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/protocol/validate_request.h"
#include "common/rpc/limits.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A chat with all that a chat may have.
v1::GenerateRequest GoodChat() {
  v1::GenerateRequest request;
  v1::ChatInput& chat = *request.mutable_chat();
  v1::ChatMessage& answer = *chat.add_messages();
  answer.set_role("assistant");
  answer.set_reasoning_content("hm");
  v1::ToolCall& call = *answer.add_tool_calls();
  call.set_id("call_1");
  call.set_name("get.the_weather-1");
  call.set_arguments("{\"cut");  // as a model may have written it
  v1::ChatMessage& result = *chat.add_messages();
  result.set_role("tool");
  result.set_tool_call_id("call_1");
  v1::Tool& tool = *chat.add_tools();
  tool.set_name("get.the_weather-1");
  tool.set_parameters(R"({"type":"object"})");
  chat.add_tools()->set_name(std::string(128, 'a'));
  chat.mutable_tool_choice()->set_mode(v1::ToolChoice::MODE_NAMED);
  chat.mutable_tool_choice()->set_name("get.the_weather-1");
  (*chat.mutable_chat_template_kwargs()->mutable_fields())["enable_thinking"].set_bool_value(true);
  return request;
}

// An object with so many keys, whose values have colons in strings and objects of their own.
std::string JsonKeys(size_t count) {
  std::string text = "{";
  for (size_t i = 0; i < count; ++i) {
    absl::StrAppend(&text, i > 0 ? "," : "", "\"", i, R"(":":\":")");
  }
  return text + "}";
}

std::vector<std::string> WrongFields(const absl::Status& status) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : FieldViolations(status)) fields.push_back(violation.field);
  return fields;
}

TEST(ValidateChat, AcceptsToolsCallsResultsReasoningAndVariables) {
  EXPECT_THAT(WrongFields(ValidateGenerateRequest(GoodChat(), {})), IsEmpty());
}

TEST(ValidateChat, NamesTheFieldThatIsWrong) {
  using Chat = v1::ChatInput;
  const std::string long_name(kMaxNameBytes + 1, 'a');
  const std::vector<std::pair<std::string, std::function<void(Chat&)>>> cases = {
      {"chat.tools[1].name", [](Chat& c) { c.mutable_tools(1)->set_name(""); }},
      {"chat.tools[1].name", [](Chat& c) { c.mutable_tools(1)->set_name("a b"); }},
      {"chat.tools[1].name", [](Chat& c) { c.mutable_tools(1)->set_name(std::string(129, 'a')); }},
      {"chat.tools[1].name", [](Chat& c) { *c.mutable_tools(1) = c.tools(0); }},
      {"chat.tools[0].parameters", [](Chat& c) { c.mutable_tools(0)->set_parameters("{"); }},
      {"chat.tools[0].parameters", [](Chat& c) { c.mutable_tools(0)->set_parameters("[]"); }},
      {"chat.tools[0].parameters",
       [](Chat& c) { c.mutable_tools(0)->set_parameters(R"({"const":"\ud800"})"); }},
      {"chat.tools[0].parameters",
       [](Chat& c) {
         const std::string open(kMaxJsonDepth, '[');
         c.mutable_tools(0)->set_parameters("{\"a\":" + open + std::string(open.size(), ']') + "}");
       }},
      {"chat.tools[0].parameters",
       [](Chat& c) { c.mutable_tools(0)->set_parameters(JsonKeys(kMaxObjectKeys + 1)); }},
      {"chat.tools",
       [](Chat& c) {
         for (size_t i = 0; i < kMaxJsonKeys / kMaxObjectKeys; ++i) {
           v1::Tool& tool = *c.add_tools();
           tool.set_name(absl::StrCat("t", i));
           tool.set_parameters(JsonKeys(kMaxObjectKeys));
         }
       }},
      {"chat.messages[0].tool_calls[0].arguments",
       [](Chat& c) {
         c.mutable_messages(0)->mutable_tool_calls(0)->set_arguments(JsonKeys(kMaxObjectKeys + 1));
       }},
      {"chat.messages",
       [](Chat& c) {
         for (size_t i = 0; i <= kMaxJsonKeys / kMaxObjectKeys; ++i) {
           v1::ToolCall& call = *c.mutable_messages(0)->add_tool_calls();
           call.set_name("f");
           call.set_arguments(JsonKeys(kMaxObjectKeys));
         }
       }},
      {"chat.messages[0].tool_calls[0].arguments",
       [](Chat& c) {
         c.mutable_messages(0)->mutable_tool_calls(0)->set_arguments(
             "\"[\"" + std::string(kMaxJsonDepth + 1, '{'));
       }},
      {"chat.tools",
       [](Chat& c) {
         for (size_t i = 0; i < kMaxTools; ++i) c.add_tools()->set_name(absl::StrCat("t", i));
       }},
      {"chat.messages",
       [](Chat& c) { c.mutable_messages(1)->set_content(std::string(kMaxPromptBytes, 'x')); }},
      {"chat.messages",
       [](Chat& c) {
         c.mutable_tools(0)->set_description(std::string(kMaxPromptBytes / 2, 'x'));
         c.mutable_messages(0)->set_reasoning_content(std::string(kMaxPromptBytes / 2, 'x'));
       }},
      {"chat.messages",
       [](Chat& c) {
         c.mutable_messages(0)->mutable_tool_calls(0)->set_arguments(
             std::string(kMaxPromptBytes, 'x'));
       }},
      {"chat.messages[0].tool_calls[0].name",
       [](Chat& c) { c.mutable_messages(0)->mutable_tool_calls(0)->set_name("a b"); }},
      {"chat.messages[0].tool_calls[0].id",
       [&](Chat& c) { c.mutable_messages(0)->mutable_tool_calls(0)->set_id(long_name); }},
      {"chat.messages[0].tool_calls",
       [](Chat& c) {
         for (size_t i = 0; i < kMaxToolCalls; ++i) {
           c.mutable_messages(0)->add_tool_calls()->set_name("f");
         }
       }},
      {"chat.messages[0].tool_calls", [](Chat& c) { c.mutable_messages(0)->set_role("user"); }},
      {"chat.messages[1].tool_call_id",
       [&](Chat& c) { c.mutable_messages(1)->set_tool_call_id(long_name); }},
      {"chat.tool_choice.name", [](Chat& c) { c.mutable_tool_choice()->set_name("other"); }},
      {"chat.tool_choice.mode",
       [](Chat& c) {
         c.mutable_tool_choice()->set_mode(v1::ToolChoice::MODE_REQUIRED);
         c.clear_tools();
       }},
      {"chat.tool_choice.mode",
       [](Chat& c) { c.mutable_tool_choice()->set_mode(static_cast<v1::ToolChoice::Mode>(9)); }},
      {"chat.chat_template_kwargs",
       [](Chat& c) {
         auto& fields = *c.mutable_chat_template_kwargs()->mutable_fields();
         for (size_t i = 0; i < kMaxTemplateVariables; ++i) fields[absl::StrCat("v", i)];
       }},
      {"chat.chat_template_kwargs",
       [](Chat& c) {
         (*c.mutable_chat_template_kwargs()->mutable_fields())["v"].set_string_value(
             std::string(kMaxTemplateVariableBytes, 'x'));
       }},
  };
  for (const auto& [field, change] : cases) {
    v1::GenerateRequest request = GoodChat();
    change(*request.mutable_chat());
    EXPECT_THAT(WrongFields(ValidateGenerateRequest(request, {})), ElementsAre(field));
  }
}

TEST(ValidateChat, OneAnswerIsNotHeldToTwoForms) {
  v1::GenerateRequest request = GoodChat();
  request.mutable_response_format()->mutable_json_object();
  EXPECT_THAT(WrongFields(ValidateGenerateRequest(request, {})), ElementsAre("response_format"));
  request.mutable_chat()->mutable_tool_choice()->set_mode(v1::ToolChoice::MODE_AUTO);
  EXPECT_THAT(WrongFields(ValidateGenerateRequest(request, {})), IsEmpty());
}

}  // namespace
}  // namespace baton
