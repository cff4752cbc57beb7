#include "router/anthropic/messages_input.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
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
  ToolTable table;
  ReadMessagesInput(fields, *request.mutable_chat(), table);
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
  EXPECT_THAT(
      MessagesOf(request),
      ElementsAre("assistant: There. (hm) 1=f({}) 2=g({\"b\": 1, \"a\": 2})", "user: Go on"));
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

// The content of a result with this block, or the error's field and text.
std::string ResultOf(const std::string& block) {
  const auto [request, status] = InputOfMessages(
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": [
          {"type": "tool_result", "tool_use_id": "1", "content": [
              {"type": "text", "text": "first"}, )" +
      block + "]}]}]}");
  if (!status.ok())
    return absl::StrCat(FieldOf(status), ": ", FieldViolations(status)[0].description);
  return request.chat().messages(1).content();
}

TEST(MessagesInput, AResultsTextComesFromEachBlockThatHasText) {
  EXPECT_EQ(ResultOf(R"({"type": "text", "text": "second"})"), "first\nsecond");
  EXPECT_EQ(ResultOf(R"({"type": "document", "title": "t", "source":
                {"type": "text", "media_type": "text/plain", "data": "of a document"}})"),
            "first\nof a document");
  EXPECT_EQ(ResultOf(R"({"type": "document", "source": {"type": "content", "content": "one"}})"),
            "first\none");
  EXPECT_EQ(ResultOf(R"({"type": "document", "source": {"type": "content", "content": [
                {"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}})"),
            "first\none\ntwo");
  EXPECT_EQ(ResultOf(R"({"type": "search_result", "source": "https://example.org", "title": "Found",
                "content": [{"type": "text", "text": "it"}], "citations": {"enabled": true}})"),
            "first\nFound\nhttps://example.org\nit");
  EXPECT_EQ(ResultOf(R"({"type": "tool_reference", "tool_name": "Fetch"})"), "first\nFetch");
}

TEST(MessagesInput, ABlockThatIsNoTextIsNamedByMessageBlockAndType) {
  const std::string at = "messages[1].content[0].content[1]";
  const std::string use = "; use text, document, search_result or tool_reference";
  EXPECT_EQ(ResultOf(R"({"type": "image", "source": {"type": "base64"}})"),
            at + ".type: 'image' is not served" + use);
  EXPECT_EQ(ResultOf(R"({"type": "audio"})"), at + ".type: 'audio' is not served" + use);
  EXPECT_EQ(ResultOf(R"({"text": "a"})"), at + ".type: is missing" + use);
  EXPECT_EQ(ResultOf(R"({"type": "document", "source": {"type": "base64", "data": "x"}})"),
            at + ".source.type: 'base64' is not served; use text or content");
  EXPECT_EQ(ResultOf(R"({"type": "document", "source": {"type": "content", "content": [
                {"type": "image"}]}})"),
            at + ".source.content[0].type: 'image' is not served; use text");
  EXPECT_EQ(ResultOf(R"({"type": "document"})"), at + ".source: is missing");
  EXPECT_EQ(ResultOf(R"({"type": "search_result", "content": [{"type": "image"}]})"),
            at + ".content[0].type: 'image' is not served; use text");
  EXPECT_EQ(ResultOf(R"({"type": "tool_reference"})"), at + ".tool_name: is missing");
  EXPECT_EQ(ResultOf("3"), at + ": must be an object");
}

TEST(MessagesInput, AUsersDocumentsAndSearchResultsAreText) {
  const auto [request, status] = InputOfMessages(R"({"messages": [{"role": "user", "content": [
      {"type": "document", "source": {"type": "text", "data": "d"}},
      {"type": "search_result", "title": "t", "source": "s", "content": [
          {"type": "text", "text": "r"}]},
      {"type": "text", "text": "What is it?"}]}]})");
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(MessagesOf(request), ElementsAre("user: d\nt\ns\nr\nWhat is it?"));
}

TEST(MessagesInput, WhatHostedToolsDidIsLeftOut) {
  const auto [request, status] = InputOfMessages(R"({"messages": [
      {"role": "user", "content": "a"},
      {"role": "assistant", "content": [
          {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
          {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
          {"type": "mcp_tool_use", "id": "m1", "name": "x", "input": {}},
          {"type": "mcp_tool_result", "tool_use_id": "m1", "content": []},
          {"type": "text", "text": "Found."}]},
      {"role": "user", "content": "b"}]})");
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(MessagesOf(request), ElementsAre("user: a", "assistant: Found.", "user: b"));
}

TEST(MessagesInput, HostedToolsAreLeftOutBesideOthersAndRefusedAlone) {
  const std::string user = R"("messages": [{"role": "user", "content": "a"}])";
  const std::string own = R"({"name": "f", "input_schema": {"type": "object"}})";
  for (const char* type : {"web_search_20250305", "bash_20250124", "text_editor_20250728",
                           "computer_20250124", "tool_search_tool_regex_20251119", "of_tomorrow"}) {
    const std::string hosted = absl::StrCat(R"({"type": ")", type, R"(", "name": "theirs"})");
    const auto [beside, fine] =
        InputOfMessages(absl::StrCat("{", user, R"(, "tools": [)", hosted, ",", own, "]}"));
    EXPECT_TRUE(fine.ok()) << fine;
    ASSERT_EQ(beside.chat().tools_size(), 1);
    EXPECT_EQ(beside.chat().tools(0).name(), "f");
    const absl::Status alone =
        InputOfMessages(absl::StrCat("{", user, R"(, "tools": [)", hosted, "]}")).second;
    EXPECT_EQ(FieldOf(alone), "tools[0].type");
    EXPECT_EQ(FieldViolations(alone)[0].description, HostedToolFault(type));
    const absl::Status chosen =
        InputOfMessages(absl::StrCat("{", user, R"(, "tools": [)", own, ",", hosted,
                                     R"(], "tool_choice": {"type": "tool", "name": "theirs"}})"))
            .second;
    EXPECT_EQ(FieldOf(chosen), "tool_choice.name");
    EXPECT_EQ(FieldViolations(chosen)[0].description, HostedToolFault(type));
  }
}

TEST(MessagesInput, NamesAndIdsAreBlamedWhereTheyStand) {
  const auto assistant = [](const std::string& blocks) {
    return FieldOf(InputOfMessages(R"({"messages": [{"role": "user", "content": "a"},
        {"role": "assistant", "content": [{"type": "text", "text": "b"}, )" +
                                   blocks + R"(]}, {"role": "user", "content": "c"}]})")
                       .second);
  };
  EXPECT_EQ(assistant(R"({"type": "tool_use", "id": "1", "name": "a b", "input": {}})"),
            "messages[1].content[1].name");
  EXPECT_EQ(assistant(R"({"type": "tool_use", "name": "f", "input": {}, "id": ")" +
                      std::string(257, 'i') + "\"}"),
            "messages[1].content[1].id");
  std::string calls;
  for (int i = 0; i < 129; ++i) {
    absl::StrAppend(&calls, i > 0 ? "," : "", R"({"type": "tool_use", "id": "1", "name": "f"})");
  }
  EXPECT_EQ(assistant(calls), "messages[1].content[129].type");
  EXPECT_EQ(WrongInputOfMessages(R"(, "tools": [{"name": "a b", "input_schema": {}}])"),
            "tools[0].name");
  EXPECT_EQ(WrongInputOfMessages(R"(, "tools": [{"name": "f", "input_schema": {}},
                                                {"name": "f", "input_schema": {}}])"),
            "tools[1].name");
  EXPECT_EQ(WrongInputOfMessages(R"(, "tools": [{"name": "f", "input_schema": {}}],
                                      "tool_choice": {"type": "tool", "name": "g"})"),
            "tool_choice.name");
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
