#include "router/openai/chat_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

#include "common/rpc/limits.h"
#include "common/rpc/status.h"
#include "tests/router/openai/request_reading.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

// A chat of one message with more fields: `more` is JSON without its braces, or empty.
std::string ChatBody(const std::string& more) {
  return R"({"messages": [{"role": "user", "content": "Hi"}])" + (more.empty() ? "" : ", " + more) +
         "}";
}
v1::GenerateRequest Chat(const std::string& more, const std::string& chat_template = "") {
  return ReadOne(ReadChatRequest, ChatBody(more), chat_template);
}
std::string WrongChat(const std::string& more) { return Wrong(ReadChatRequest, ChatBody(more)); }

v1::ChatInput Messages(const std::string& messages) {
  return ReadOne(ReadChatRequest, R"({"messages": )" + messages + "}").chat();
}
std::string WrongMessages(const std::string& messages) {
  return Wrong(ReadChatRequest, R"({"messages": )" + messages + "}");
}

TEST(ChatRequest, TheLeastIsAChatThatStreamsNothing) {
  const v1::GenerateRequest request = Chat("");
  EXPECT_EQ(request.chat().messages(0).role(), "user");
  EXPECT_EQ(request.chat().messages(0).content(), "Hi");
  EXPECT_EQ(request.request_id(), "req");
  EXPECT_FALSE(request.stream());
  EXPECT_FALSE(request.sampling_params().has_max_tokens());
  EXPECT_FALSE(request.sampling_params().has_temperature());
  EXPECT_FALSE(request.sampling_params().has_logprobs());
}

TEST(ChatRequest, ContentIsAStringOrPartsOfText) {
  const v1::ChatInput chat = Messages(R"([
    {"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "assistant", "content": null},
    {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}], "reasoning": "hm"},
    {"role": "user", "content": ""}])");
  EXPECT_EQ(chat.messages(0).content(), "a\nb");
  EXPECT_EQ(chat.messages(1).content(), "");
  EXPECT_EQ(chat.messages(2).content(), "no");
  EXPECT_EQ(chat.messages(2).reasoning_content(), "hm");
}

TEST(ChatRequest, PartsThatAreNoTextAreRefusedByName) {
  for (const char* type : {"image_url", "input_audio", "file"}) {
    EXPECT_EQ(WrongMessages(std::string(R"([{"role": "user", "content": [
                {"type": "text", "text": "a"}, {"type": ")") +
                            type + R"("}]}])"),
              "messages[0].content[1].type");
  }
}

TEST(ChatRequest, RolesBecomeThoseOfTemplates) {
  const v1::ChatInput chat = Messages(R"([
    {"role": "developer", "content": "a"}, {"role": "user", "content": "b", "name": "n"},
    {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
    {"role": "function", "name": "f", "content": "c"}])");
  EXPECT_EQ(chat.messages(0).role(), "system");
  EXPECT_EQ(chat.messages(1).name(), "n");
  EXPECT_EQ(chat.messages(2).tool_calls(0).name(), "f");
  EXPECT_EQ(chat.messages(3).role(), "tool");
  EXPECT_EQ(WrongMessages(R"([{"role": "robot", "content": "a"}])"), "messages[0].role");
  EXPECT_EQ(WrongMessages(R"([{"content": "a"}])"), "messages[0].role");
}

TEST(ChatRequest, CallsAndTheirResultsComeBack) {
  const v1::ChatInput chat = Messages(R"([
    {"role": "assistant", "content": null, "tool_calls": [
      {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}},
      {"id": "c2", "type": "function", "function": {"name": "g", "arguments": {"b": 2, "a": 1}}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "ok"}])");
  EXPECT_EQ(chat.messages(0).tool_calls(0).id(), "c1");
  EXPECT_EQ(chat.messages(0).tool_calls(0).arguments(), "{\"a\": 1}");
  EXPECT_EQ(chat.messages(0).tool_calls(1).arguments(), R"({"b": 2, "a": 1})");
  EXPECT_EQ(chat.messages(1).tool_call_id(), "c1");
  EXPECT_EQ(WrongMessages(R"([{"role": "assistant", "tool_calls": [{"id": "c"}]}])"),
            "messages[0].tool_calls[0].function");
  EXPECT_EQ(WrongMessages(R"([{"role": "assistant", "tool_calls": [{"function": {}}]}])"),
            "messages[0].tool_calls[0].function.name");
}

TEST(ChatRequest, WhatIsNoListOfMessagesIsNamed) {
  EXPECT_EQ(Wrong(ReadChatRequest, "{}"), "messages");
  EXPECT_EQ(WrongMessages("\"a\""), "messages");
  EXPECT_EQ(WrongMessages("[3]"), "messages[0]");
  EXPECT_EQ(WrongMessages(R"([{"role": "user", "content": 3}])"), "messages[0].content");
  EXPECT_EQ(WrongMessages(R"([{"role": "user"}])"), "messages[0].content");
}

TEST(ChatRequest, AChatDoesNotEndWithTwoMessagesOfTheAssistant) {
  const std::string said = R"({"role": "assistant", "content": "a"})";
  const std::string asked = R"({"role": "user", "content": "a"})";
  EXPECT_EQ(WrongMessages(absl::StrCat("[", asked, ",", said, ",", said, "]")), "messages");
  EXPECT_EQ(Messages(absl::StrCat("[", asked, ",", said, "]")).messages_size(), 2);
  EXPECT_EQ(Messages(absl::StrCat("[", said, ",", said, ",", asked, "]")).messages_size(), 3);
}

constexpr char kTools[] =
    R"("tools": [{"type": "function", "function": {"name": "f", "description": "d", "strict": true,
                  "parameters": {"type": "object", "properties": {"b": {}, "a": {}}}}},
                 {"type": "function", "function": {"name": "g"}}])";

TEST(ChatRequest, ToolsKeepTheOrderOfTheirSchemas) {
  const v1::ChatInput chat = Chat(kTools).chat();
  ASSERT_EQ(chat.tools_size(), 2);
  EXPECT_EQ(chat.tools(0).name(), "f");
  EXPECT_EQ(chat.tools(0).description(), "d");
  EXPECT_EQ(chat.tools(0).parameters(), R"({"type":"object","properties":{"b":{},"a":{}}})");
  EXPECT_EQ(chat.tools(1).parameters(), "");
  EXPECT_EQ(chat.tool_choice().mode(), v1::ToolChoice::MODE_UNSPECIFIED);
  EXPECT_EQ(WrongChat(R"("tools": [{"type": "custom"}])"), "tools[0].custom");
}

TEST(ChatRequest, AHostedToolIsLeftOutWithAWarningAndRefusedAlone) {
  const std::string hosted = R"({"type": "web_search_preview"})";
  const std::string function = R"({"type": "function", "function": {"name": "f"}})";
  const auto both = ReadChatRequest(
      ChatBody(absl::StrCat(R"("tools": [)", hosted, ",", function, "]")), ContextOf(""));
  ASSERT_TRUE(both.ok()) << both.status();
  ASSERT_EQ(both->prompts[0].chat().tools_size(), 1);
  EXPECT_EQ(both->prompts[0].chat().tools(0).name(), "f");
  EXPECT_THAT(both->warning, HasSubstr("web_search_preview"));
  EXPECT_EQ(WrongChat(absl::StrCat(R"("tools": [)", hosted, "]")), "tools[0].type");
  EXPECT_EQ(WrongChat(absl::StrCat(R"("tools": [)", function, R"(], "tool_choice": )", hosted)),
            "tool_choice.type");
  EXPECT_TRUE(ReadChatRequest(ChatBody(absl::StrCat(R"("functions": [{"name": "g"}], "tools": [)",
                                                    hosted, "]")),
                              ContextOf(""))
                  .ok())
      << "the old form has a function";
}

// The names and texts in the wrong field's own place, for each of the forms that a tool has.
TEST(ChatRequest, AToolsNameIsBlamedWhereItStands) {
  EXPECT_EQ(WrongChat(R"("tools": [{"type": "function", "function": {"name": "a b"}}])"),
            "tools[0].function.name");
  EXPECT_EQ(WrongChat(R"("tools": [{"type": "custom", "custom": {"name": "a/b"}}])"),
            "tools[0].custom.name");
  EXPECT_EQ(WrongChat(R"("functions": [{"name": "f"}, {"name": "\u00e9"}])"), "functions[1].name");
  EXPECT_EQ(WrongChat(absl::StrCat(R"("functions": [{"name": ")", std::string(129, 'f'), "\"}]")),
            "functions[0].name");
  EXPECT_EQ(WrongChat(R"("tools": [{"type": "function", "function": {"name": "f"}},
                                   {"type": "custom", "custom": {"name": "f"}}])"),
            "tools[1].custom.name");
  EXPECT_EQ(WrongMessages(R"([{"role": "assistant", "tool_calls": [
                {"id": "1", "function": {"name": "a b"}}]}])"),
            "messages[0].tool_calls[0].function.name");
  EXPECT_EQ(WrongMessages(R"([{"role": "assistant", "function_call": {"name": "a b"}}])"),
            "messages[0].function_call.name");
  EXPECT_EQ(WrongChat(std::string(kTools) +
                      R"(, "tool_choice": {"type": "function", "function": {"name": "h"}})"),
            "tool_choice.function.name");
}

TEST(ChatRequest, CustomToolsAndTheirCallsAreFunctionsOfOneString) {
  const v1::ChatInput chat = Chat(R"("tools": [{"type": "custom", "custom": {"name": "apply_patch",
      "description": "d", "format": {"type": "text"}}}],
      "tool_choice": {"type": "custom", "custom": {"name": "apply_patch"}})")
                                 .chat();
  ASSERT_EQ(chat.tools_size(), 1);
  EXPECT_EQ(chat.tools(0).name(), "apply_patch");
  EXPECT_EQ(chat.tools(0).description(), "d");
  EXPECT_EQ(chat.tools(0).parameters(),
            R"({"type":"object","properties":{"input":{"type":"string"}},"required":["input"],)"
            R"("additionalProperties":false})");
  EXPECT_EQ(chat.tool_choice().name(), "apply_patch");
  const v1::ChatInput history = Messages(R"([{"role": "assistant", "tool_calls": [
      {"id": "1", "type": "custom", "custom": {"name": "apply_patch", "input": "a\n\"b\""}}]}])");
  EXPECT_EQ(history.messages(0).tool_calls(0).name(), "apply_patch");
  EXPECT_EQ(history.messages(0).tool_calls(0).arguments(), R"({"input": "a\n\"b\""})");
  EXPECT_EQ(WrongMessages(R"([{"role": "assistant", "tool_calls": [
                {"id": "1", "type": "custom", "custom": {"name": "f"}}]}])"),
            "messages[0].tool_calls[0].custom.input");
}

TEST(ChatRequest, ToolsOfANamespaceAndTheirEarlierCallsAreFlat) {
  const std::string tools = R"("tools": [{"type": "namespace", "name": "mcp__clock", "tools": [
      {"type": "function", "function": {"name": "time_in"}}]}])";
  const v1::ChatInput chat = Chat(tools + R"(, "tool_choice": {"type": "function", "function":
      {"name": "time_in", "namespace": "mcp__clock"}})")
                                 .chat();
  ASSERT_EQ(chat.tools_size(), 1);
  EXPECT_EQ(chat.tools(0).name(), "mcp__clock__time_in");
  EXPECT_EQ(chat.tool_choice().name(), "mcp__clock__time_in");
  const v1::ChatInput history = Messages(R"([{"role": "assistant", "tool_calls": [{"id": "1",
      "function": {"name": "time_in", "namespace": "mcp__clock", "arguments": "{}"}}]}])");
  EXPECT_EQ(history.messages(0).tool_calls(0).name(), "mcp__clock__time_in");
}

TEST(ChatRequest, ToolChoiceIsAModeOrAName) {
  const auto choice = [](const std::string& json) {
    return Chat(std::string(kTools) + R"(, "tool_choice": )" + json).chat();
  };
  EXPECT_EQ(choice("\"none\"").tool_choice().mode(), v1::ToolChoice::MODE_NONE);
  EXPECT_EQ(choice("\"auto\"").tool_choice().mode(), v1::ToolChoice::MODE_AUTO);
  EXPECT_EQ(choice("\"required\"").tool_choice().mode(), v1::ToolChoice::MODE_REQUIRED);
  const v1::ChatInput named = choice(R"({"type": "function", "function": {"name": "g"}})");
  EXPECT_EQ(named.tool_choice().mode(), v1::ToolChoice::MODE_NAMED);
  EXPECT_EQ(named.tool_choice().name(), "g");
  const v1::ChatInput allowed = choice(
      R"({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools":
          [{"type": "function", "function": {"name": "g"}}]}})");
  EXPECT_EQ(allowed.tool_choice().mode(), v1::ToolChoice::MODE_REQUIRED);
  ASSERT_EQ(allowed.tools_size(), 1);
  EXPECT_EQ(allowed.tools(0).name(), "g");
  EXPECT_EQ(WrongChat(R"("tool_choice": "required")"), "tool_choice");
  EXPECT_EQ(WrongChat(std::string(kTools) + R"(, "tool_choice": "some")"), "tool_choice");
}

TEST(ChatRequest, ToolsAreBoundedInNumberAndAllowedOnesNamedOnce) {
  const auto tools = [](size_t count) {
    std::string list;
    for (size_t i = 0; i < count; ++i) {
      absl::StrAppend(&list, i > 0 ? "," : "", R"({"type": "function", "function": {"name": "t)", i,
                      "\"}}");
    }
    return absl::StrCat(R"("tools": [)", list, "]");
  };
  EXPECT_EQ(Chat(tools(kMaxTools)).chat().tools_size(), static_cast<int>(kMaxTools));
  EXPECT_EQ(WrongChat(tools(kMaxTools + 1)), "tools");
  const auto allowing = [&](const std::string& names) {
    return absl::StrCat(kTools, R"(, "tool_choice": {"type": "allowed_tools", "allowed_tools":
                                    {"mode": "auto", "tools": [)",
                        names, "]}}");
  };
  EXPECT_EQ(Chat(allowing(R"({"name": "g"}, {"name": "f"})")).chat().tools(1).name(), "f");
  EXPECT_EQ(WrongChat(allowing(R"({"name": "g"}, {"name": "g"})")),
            "tool_choice.allowed_tools.tools");
  EXPECT_EQ(WrongChat(allowing(R"({"name": "h"})")), "tool_choice.allowed_tools.tools");
  EXPECT_EQ(WrongChat(allowing("")), "tool_choice.allowed_tools.tools");
}

TEST(ChatRequest, FunctionsOfTheOldFormAreToolsWithOneCall) {
  const v1::ChatInput chat =
      Chat(R"("functions": [{"name": "f"}], "function_call": {"name": "f"})").chat();
  EXPECT_EQ(chat.tools(0).name(), "f");
  EXPECT_EQ(chat.tool_choice().mode(), v1::ToolChoice::MODE_NAMED);
  EXPECT_TRUE(chat.tool_choice().single_call());
  EXPECT_FALSE(Chat(kTools).chat().tool_choice().single_call());
  EXPECT_TRUE(Chat(std::string(kTools) + R"(, "parallel_tool_calls": false)")
                  .chat()
                  .tool_choice()
                  .single_call());
}

TEST(ChatRequest, MarkersThatAreSpecialTokensStayForTheParser) {
  const char* const special = "[TOOL_CALLS]";
  EXPECT_FALSE(Chat(kTools, special).sampling_params().skip_special_tokens());
  EXPECT_TRUE(Chat(kTools, special).sampling_params().has_skip_special_tokens());
  EXPECT_FALSE(Chat("", special).sampling_params().has_skip_special_tokens());
  EXPECT_FALSE(Chat(kTools).sampling_params().has_skip_special_tokens());
}

TEST(ChatRequest, TheTemplateIsAskedOnceForHoweverManyChoices) {
  ApiContext context = ContextOf("");
  int asked = 0;
  context.tool_form_for = [&](const v1::ChatInput& /*chat*/) {
    ++asked;
    return context.tool_form;
  };
  EXPECT_TRUE(ReadChatRequest(ChatBody(R"("n": 16)"), context).ok());
  EXPECT_EQ(asked, 1);
}

TEST(ChatRequest, LogProbabilitiesNeedToBeAskedForAsSuch) {
  EXPECT_EQ(Chat(R"("logprobs": true)").sampling_params().logprobs(), 0);
  EXPECT_TRUE(Chat(R"("logprobs": true)").sampling_params().has_logprobs());
  EXPECT_EQ(Chat(R"("logprobs": true, "top_logprobs": 20)").sampling_params().logprobs(), 20);
  EXPECT_FALSE(Chat(R"("logprobs": false)").sampling_params().has_logprobs());
  EXPECT_EQ(WrongChat(R"("top_logprobs": 2)"), "top_logprobs");
  EXPECT_EQ(WrongChat(R"("logprobs": true, "top_logprobs": 99)"), "top_logprobs");
  EXPECT_EQ(WrongChat(R"("logprobs": 1)"), "logprobs");
}

TEST(ChatRequest, TheNewNameOfMaxTokensGoesBeforeTheOld) {
  EXPECT_EQ(Chat(R"("max_tokens": 3)").sampling_params().max_tokens(), 3u);
  EXPECT_EQ(Chat(R"("max_tokens": 3, "max_completion_tokens": 4)").sampling_params().max_tokens(),
            4u);
}

TEST(ChatRequest, VariablesOfTheTemplateAreKept) {
  const v1::GenerateRequest request =
      Chat(R"("chat_template_kwargs": {"enable_thinking": false, "n": [1, {"a": null}]})");
  const auto& fields = request.chat().chat_template_kwargs().fields();
  EXPECT_FALSE(fields.at("enable_thinking").bool_value());
  EXPECT_EQ(fields.at("n").list_value().values(0).number_value(), 1);
  const auto& inner = fields.at("n").list_value().values(1).struct_value().fields();
  EXPECT_TRUE(inner.at("a").has_null_value());
}

TEST(ChatRequest, ABodyThatIsNoJsonObjectIsRefused) {
  for (const char* body : {"", "[]", "{", "{\"messages\": [\"\xFF\"]}"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ReadChatRequest(body, ContextOf("")).status())) << body;
  }
}

TEST(ChatRequest, ContinuousUsageCountsTokenIds) {
  EXPECT_TRUE(Chat(R"("stream": true, "stream_options":
                      {"include_usage": true, "continuous_usage_stats": true})")
                  .return_token_ids());
  EXPECT_FALSE(
      Chat(R"("stream": true, "stream_options": {"include_usage": true})").return_token_ids());
}

}  // namespace
}  // namespace baton
