#include "router/responses/responses_input.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/router/api/shown_chat.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using Json = nlohmann::ordered_json;

// The chat of a body, and the error that was kept.
std::pair<v1::GenerateRequest, absl::Status> InputOfResponses(const std::string& body) {
  const Json json = Json::parse(body);
  JsonFields fields(json);
  v1::GenerateRequest request;
  ToolTable table;
  ReadResponsesInput(fields, *request.mutable_chat(), table);
  return {std::move(request), fields.status()};
}

std::vector<std::string> MessagesOfItems(const std::string& items) {
  const auto [request, status] = InputOfResponses(R"({"input": [)" + items + "]}");
  EXPECT_TRUE(status.ok()) << status;
  return MessagesOf(request);
}

TEST(ResponsesInput, AStringIsAUsersMessage) {
  EXPECT_THAT(MessagesOf(InputOfResponses(R"({"instructions": "Be brief.", "input": "Hi"})").first),
              ElementsAre("system: Be brief.", "user: Hi"));
}

TEST(ResponsesInput, CallsAndReasoningJoinTheMessageThatTheyBelongTo) {
  EXPECT_THAT(MessagesOfItems(R"(
      {"role": "user", "content": "a"},
      {"type": "reasoning", "summary": [{"type": "summary_text", "text": "so"}]},
      {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}],
       "summary": [{"type": "summary_text", "text": "left out"}]},
      {"type": "function_call", "call_id": "1", "name": "f"},
      {"type": "function_call", "call_id": "2", "name": "g", "arguments": "{\"n\":1}"},
      {"type": "function_call_output", "call_id": "1", "output": "b"},
      {"type": "function_call", "call_id": "3", "name": "f"})"),
              ElementsAre("user: a", "assistant:  (so\nhm) 1=f({}) 2=g({\"n\":1})", "tool: b <1>",
                          "assistant:  3=f({})"));
}

TEST(ResponsesInput, ArgumentsInTheHistoryAreTakenWhateverTheyAre) {
  EXPECT_THAT(MessagesOfItems(R"(
      {"type": "function_call", "call_id": "1", "name": "f", "arguments": {"n": 1}},
      {"type": "function_call", "call_id": "2", "name": "f", "arguments": null},
      {"type": "function_call", "call_id": "3", "name": "f", "arguments": "{\"n"})"),
              ElementsAre("assistant:  1=f({\"n\": 1}) 2=f({}) 3=f({\"n)"));
}

TEST(ResponsesInput, ReasoningIsTheAssistantsAlone) {
  EXPECT_THAT(MessagesOfItems(R"(
      {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]},
      {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"})"),
              ElementsAre("user: a", "assistant: b"));
}

TEST(ResponsesInput, ADeveloperIsASystemAndJoinsTheOneBeforeIt) {
  EXPECT_THAT(MessagesOfItems(R"(
      {"role": "system", "content": "a"}, {"role": "developer", "content": "b"},
      {"role": "user", "content": [{"type": "input_text", "text": "c"},
                                   {"type": "input_text", "text": "d"}]},
      {"role": "developer", "content": "e"})"),
              ElementsAre("system: a\n\nb", "user: c\nd", "system: e"));
}

TEST(ResponsesInput, CallsOfANamespaceAndOfCustomToolsAreCallsOfTheFlatTool) {
  EXPECT_THAT(MessagesOfItems(R"(
      {"role": "user", "content": "a"},
      {"type": "function_call", "call_id": "1", "name": "time_in", "namespace": "mcp__clock"},
      {"type": "function_call_output", "call_id": "1", "output": [
          {"type": "input_text", "text": "Wall time: 1 s"},
          {"type": "input_text", "text": "noon"}]},
      {"type": "function_call", "call_id": "2", "name": "mcp__clock__time_in", "arguments": "{}"},
      {"type": "function_call_output", "call_id": "2", "output": "unsupported call"},
      {"type": "custom_tool_call", "call_id": "3", "name": "apply_patch", "input": "+ \"a\"\n"},
      {"type": "custom_tool_call_output", "call_id": "3", "output": "done"},
      {"type": "custom_tool_call", "call_id": "4", "name": "write", "namespace": "edit",
       "input": ""},
      {"type": "custom_tool_call_output", "call_id": "4", "output": [
          {"type": "input_text", "text": "written"}]})"),
              ElementsAre("user: a", "assistant:  1=mcp__clock__time_in({})",
                          "tool: Wall time: 1 s\nnoon <1>", "assistant:  2=mcp__clock__time_in({})",
                          "tool: unsupported call <2>",
                          R"(assistant:  3=apply_patch({"input": "+ \"a\"\n"}))", "tool: done <3>",
                          R"(assistant:  4=edit__write({"input": ""}))", "tool: written <4>"));
}

TEST(ResponsesInput, WhatHostedToolsDidIsLeftOutWithAWarning) {
  const std::vector<std::string> hosted = {
      "web_search_call",  "file_search_call",   "code_interpreter_call", "image_generation_call",
      "computer_call",    "mcp_call",           "mcp_list_tools",        "mcp_approval_request",
      "tool_search_call", "tool_search_output", "computer_call_output",  "local_shell_call_output",
      "shell_call_output"};
  for (const std::string& type : hosted) {
    const Json body = {{"input",
                        {{{"role", "user"}, {"content", "a"}},
                         {{"type", type}, {"id", "x"}, {"status", "completed"}},
                         {{"role", "user"}, {"content", "b"}}}}};
    JsonFields fields(body);
    v1::GenerateRequest request;
    ToolTable table;
    ReadResponsesInput(fields, *request.mutable_chat(), table);
    EXPECT_TRUE(fields.status().ok()) << fields.status();
    EXPECT_THAT(MessagesOf(request), ElementsAre("user: a", "user: b"));
    EXPECT_NE(table.Warning().find(type), std::string::npos) << table.Warning();
  }
}

TEST(ResponsesInput, TheOutputOfACallThatIsLeftOutIsToo) {
  EXPECT_THAT(MessagesOfItems(R"(
      {"role": "user", "content": "a"},
      {"type": "local_shell_call", "call_id": "1", "status": "completed",
       "action": {"type": "exec", "command": ["ls"]}},
      {"type": "function_call_output", "call_id": "1", "output": "x.txt"},
      {"role": "user", "content": "b"})"),
              ElementsAre("user: a", "user: b"));
}

TEST(ResponsesInput, ToolsHaveTheirNamesBesideTheirTypes) {
  const auto [request, status] = InputOfResponses(R"({"input": "a",
      "tools": [{"type": "function", "name": "f"}], "parallel_tool_calls": false,
      "tool_choice": {"type": "function", "name": "f"}})");
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(request.chat().tools(0).name(), "f");
  EXPECT_EQ(request.chat().tool_choice().name(), "f");
  EXPECT_TRUE(request.chat().tool_choice().single_call());
}

TEST(ResponsesInput, KeepsTheFirstError) {
  const auto wrong = [](const std::string& items) {
    return FieldOf(InputOfResponses(R"({"input": )" + items + R"(, "tools": 3})").second);
  };
  EXPECT_EQ(wrong("null"), "input");
  EXPECT_EQ(wrong("3"), "input");
  EXPECT_EQ(wrong("[3]"), "input[0]");
  EXPECT_EQ(wrong(R"([{"role": "narrator"}])"), "input[0].role");
  EXPECT_EQ(wrong(R"([{"type": "item_reference", "id": "x"}])"), "input[0].type");
  EXPECT_EQ(wrong(R"([{"role": "user", "content": [{"type": "input_image"}]}])"),
            "input[0].content[0].type");
  EXPECT_EQ(wrong(R"([{"type": "function_call", "name": "f"}])"), "input[0].call_id");
  EXPECT_EQ(wrong(R"([{"type": "function_call", "call_id": "1", "name": "a b"}])"),
            "input[0].name");
  EXPECT_EQ(wrong(R"([{"type": "custom_tool_call", "call_id": "1", "name": "f"}])"),
            "input[0].input");
  EXPECT_EQ(wrong(R"([{"type": "compaction", "encrypted_content": "x"}])"), "input[0].type");
  EXPECT_EQ(wrong(R"([{"type": "function_call", "name": "f", "call_id": ")" +
                  std::string(257, 'i') + "\"}]"),
            "input[0].call_id");
  for (const char* type : {"function_call_output", "custom_tool_call_output"}) {
    EXPECT_EQ(wrong(absl::StrCat(R"([{"type": ")", type, R"(", "call_id": "1", "output": [
                  {"type": "input_text", "text": "a"}, {"type": "input_image"}]}])")),
              "input[0].output[1].type");
  }
  EXPECT_EQ(wrong(R"([{"type": "function_call_output", "call_id": "1"}])"), "input[0].output");
}

}  // namespace
}  // namespace baton
