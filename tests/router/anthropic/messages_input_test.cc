#include "router/anthropic/messages_input.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/router/api/shown_chat.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::ordered_json;

// The chat of a body, and the error that was kept.
std::pair<v1::GenerateRequest, absl::Status> InputOfMessages(const std::string& body) {
  const Json json = Json::parse(body);
  JsonFields fields(json);
  v1::GenerateRequest request;
  ReadMessagesInput(fields, *request.mutable_chat());
  return {std::move(request), fields.status()};
}

std::string WrongInputOfMessages(const std::string& fields) {
  const std::string user = R"("messages": [{"role": "user", "content": "a"}])";
  return FieldOf(InputOfMessages("{" + user + fields + "}").second);
}

TEST(MessagesInput, EachResultIsAMessageThatStandsWhereItsBlockDoes) {
  const auto [request, status] = InputOfMessages(R"({"messages": [
      {"role": "user", "content": [
          {"type": "text", "text": "a"}, {"type": "text", "text": "b"},
          {"type": "tool_result", "tool_use_id": "1", "content": "c"},
          {"type": "text", "text": "d"},
          {"type": "tool_result", "tool_use_id": "2"}]}]})");
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(MessagesOf(request),
              ElementsAre("user: a\nb", "tool: c <1>", "user: d", "tool:  <2>"));
}

TEST(MessagesInput, AnAssistantsBlocksAreOneMessage) {
  const auto [request, status] = InputOfMessages(R"({"messages": [
      {"role": "assistant", "content": [
          {"type": "redacted_thinking", "data": "x"}, {"type": "thinking", "thinking": "hm"},
          {"type": "tool_use", "id": "1", "name": "f"},
          {"type": "tool_use", "id": "2", "name": "g", "input": {"b": 1, "a": 2}},
          {"type": "text", "text": "There."}]},
      {"role": "user", "content": "Go on"}]})");
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(MessagesOf(request),
              ElementsAre("assistant: There. (hm) 1=f({}) 2=g({\"b\":1,\"a\":2})", "user: Go on"));
}

TEST(MessagesInput, TheInputOfACallInTheHistoryIsTakenWhateverItIs) {
  const auto [request, status] = InputOfMessages(R"({"messages": [
      {"role": "assistant", "content": [
          {"type": "tool_use", "id": "1", "name": "f", "input": null},
          {"type": "tool_use", "id": "2", "name": "f", "input": []},
          {"type": "tool_use", "id": "3", "name": "f", "input": "s"}]},
      {"role": "user", "content": "Go on"}]})");
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(MessagesOf(request),
              ElementsAre("assistant:  1=f({}) 2=f([]) 3=f(\"s\")", "user: Go on"));
}

TEST(MessagesInput, TheSystemComesFirstWithoutTheBillingLine) {
  const auto system = [](const std::string& text) {
    const Json body = {{"messages", Json::array({{{"role", "user"}, {"content", "Hi"}}})},
                       {"system", text}};
    return MessagesOf(InputOfMessages(body.dump()).first);
  };
  EXPECT_THAT(system("x-anthropic-billing-header: a=1;\nBe brief."),
              ElementsAre("system: Be brief.", "user: Hi"));
  EXPECT_THAT(system("Be brief.\nx-anthropic-billing-header: a=1;"),
              ElementsAre("system: Be brief.\nx-anthropic-billing-header: a=1;", "user: Hi"));
}

TEST(MessagesInput, ToolsAndTheChoiceAmongThemHaveNamesOfTheirOwn) {
  const auto choice = [](const std::string& text) {
    const auto [request, status] = InputOfMessages(
        R"({"messages": [{"role": "user", "content": "a"}],
            "tools": [{"name": "f", "description": "Does.", "input_schema": {"type": "object"}}],
            "tool_choice": )" +
        text + "}");
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(request.chat().tools(0).parameters(), R"({"type":"object"})");
    return request.chat().tool_choice();
  };
  EXPECT_EQ(choice(R"({"type": "any"})").mode(), v1::ToolChoice::MODE_REQUIRED);
  EXPECT_EQ(choice(R"({"type": "none"})").mode(), v1::ToolChoice::MODE_NONE);
  EXPECT_EQ(choice(R"({"type": "tool", "name": "f"})").mode(), v1::ToolChoice::MODE_NAMED);
  EXPECT_EQ(choice(R"({"type": "tool", "name": "f"})").name(), "f");
  EXPECT_FALSE(choice(R"({"type": "auto"})").single_call());
  EXPECT_TRUE(choice(R"({"type": "auto", "disable_parallel_tool_use": true})").single_call());
}

TEST(MessagesInput, KeepsTheFirstError) {
  EXPECT_EQ(WrongInputOfMessages(R"(, "tool_choice": {"type": "any"})"), "tool_choice");
  EXPECT_EQ(WrongInputOfMessages(R"(, "tools": [{"name": "f"}])"), "tools[0].input_schema");
  EXPECT_EQ(WrongInputOfMessages(R"(, "tools": [{"type": "bash_20250124"}])"), "tools[0].type");
  EXPECT_EQ(WrongInputOfMessages(R"(, "system": 3, "tools": 3)"), "system");
  const absl::Status last =
      InputOfMessages(
          R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})")
          .second;
  EXPECT_EQ(FieldOf(last), "messages[1]") << "a model cannot go on with that";
  EXPECT_THAT(std::string(last.message()), HasSubstr("add a user's message"));
  const auto [empty, status] = InputOfMessages(R"({"messages": []})");
  EXPECT_EQ(FieldOf(status), "messages");
  EXPECT_THAT(MessagesOf(empty), IsEmpty());
}

}  // namespace
}  // namespace baton
