#include "router/anthropic/messages_request.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/router/api/field_uses.h"
#include "tests/router/api/shown_chat.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using Json = nlohmann::ordered_json;

absl::StatusOr<v1::GenerateRequest> ReadMessages(const Json& body) {
  const ToolForm form{};
  return ReadMessagesPrompt(body, {.model = "m", .request_id = "q", .tool_form = form});
}

// A body with these fields beside what is needed.
Json MessagesBody(const std::string& fields) {
  Json body = Json::parse(
      R"({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]})");
  body.update(Json::parse(fields));
  return body;
}

v1::GenerateRequest ReadGoodMessages(const std::string& fields) {
  auto request = ReadMessages(MessagesBody(fields));
  EXPECT_TRUE(request.ok()) << request.status() << fields;
  return request.ok() ? *std::move(request) : v1::GenerateRequest();
}

std::string WrongFieldOfMessages(const std::string& fields) {
  return FieldOf(ReadMessages(MessagesBody(fields)).status());
}

TEST(MessagesRequest, ReadsTextsAsStringsAndBlocks) {
  EXPECT_THAT(
      MessagesOf(ReadGoodMessages(R"({
      "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
                 {"type": "text", "text": "Be kind."}],
      "messages": [
          {"role": "user", "content": "Hi"},
          {"role": "assistant", "content": [{"type": "text", "text": "Hello"}]},
          {"role": "user", "content": [{"type": "text", "text": "one"},
                                       {"type": "text", "text": "two"}]}]})")),
      ElementsAre("system: Be brief.\nBe kind.", "user: Hi", "assistant: Hello", "user: one\ntwo"));
}

TEST(MessagesRequest, TurnsResultsOfToolsIntoMessages) {
  EXPECT_THAT(MessagesOf(ReadGoodMessages(R"({"messages": [
          {"role": "user", "content": "How warm is it?"},
          {"role": "assistant", "content": [
              {"type": "thinking", "thinking": "hm", "signature": ""},
              {"type": "text", "text": "I look."},
              {"type": "tool_use", "id": "1", "name": "get", "input": {"a": 1}},
              {"type": "tool_use", "id": "2", "name": "put", "input": {}}]},
          {"role": "user", "content": [
              {"type": "text", "text": "See:"},
              {"type": "tool_result", "tool_use_id": "1", "content": "warm"},
              {"type": "tool_result", "tool_use_id": "2", "is_error": true,
               "content": [{"type": "text", "text": "failed"}]},
              {"type": "tool_result", "tool_use_id": "3"},
              {"type": "text", "text": "And now?"}]}]})")),
              ElementsAre("user: How warm is it?",
                          "assistant: I look. (hm) 1=get({\"a\": 1}) 2=put({})", "user: See:",
                          "tool: warm <1>", "tool: failed <2>", "tool:  <3>", "user: And now?"));
}

TEST(MessagesRequest, LeavesTheBillingLineOutOfTheSystemsText) {
  const std::string line = "x-anthropic-billing-header: cc_version=2.1; cch=74943;";
  const auto system_of = [](const Json& system) {
    return MessagesOf(ReadGoodMessages(Json({{"system", system}}).dump()))[0];
  };
  EXPECT_EQ(system_of(line + "\nBe brief."), "system: Be brief.");
  EXPECT_EQ(system_of(line), "system: ");
  EXPECT_EQ(system_of(Json::array(
                {{{"type", "text"}, {"text", line}}, {{"type", "text"}, {"text", "Be brief."}}})),
            "system: Be brief.");
  EXPECT_EQ(system_of("Say " + line), "system: Say " + line);
}

TEST(MessagesRequest, NamesTheFieldThatIsWrong) {
  const std::string user = R"({"messages": [{"role": "user", "content": [)";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"max_tokens": null})", "max_tokens"},
      {R"({"max_tokens": 0})", "max_tokens"},
      {R"({"thinking": {"type": "often"}})", "thinking.type"},
      {R"({"output_config": {"effort": "huge"}})", "output_config.effort"},
      {R"({"messages": []})", "messages"},
      {R"({"messages": [1]})", "messages[0]"},
      {R"({"messages": [{"role": "king", "content": "x"}]})", "messages[0].role"},
      {R"({"messages": [{"role": "user"}]})", "messages[0].content"},
      {R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]})",
       "messages[1]"},
      {user + R"({"type": "image", "source": {}}]}]})", "messages[0].content[0].type"},
      {user + R"({"type": "tool_use", "id": "1", "name": "x", "input": {}}]}]})",
       "messages[0].content[0].type"},
      {user + R"({"type": "tool_result"}]}]})", "messages[0].content[0].tool_use_id"},
      {user + R"({"type": "tool_result", "tool_use_id": "1", "content": [{"type": "image"}]}]}]})",
       "messages[0].content[0].content[0].type"},
      {user + R"({"type": "text"}]}]})", "messages[0].content[0].text"},
      {R"({"system": [{"type": "image"}]})", "system[0].type"},
      {R"({"tools": [{"type": "bash_20250124", "name": "bash"}]})", "tools[0].type"},
      {R"({"tools": [{"name": "x"}]})", "tools[0].input_schema"},
      {R"({"tools": [{"input_schema": {}}]})", "tools[0].name"},
      {R"({"tool_choice": {"type": "any"}})", "tool_choice"},
      {R"({"tool_choice": {"type": "maybe"}})", "tool_choice.type"},
      {R"({"tool_choice": {"type": "tool"}})", "tool_choice.name"},
      {R"({"stop_sequences": [1]})", "stop_sequences"},
      {R"({"metadata": {"user_id": 1}})", "metadata.user_id"},
      {R"({"output_config": {"format": {"type": "xml"}}})", "output_config.format.type"},
      {R"({"output_config": {"format": {"type": "json_schema"}}})", "output_config.format.schema"},
      {R"({"output_format": {"type": "json_schema", "json_schema": {"schema": {}}}})",
       "output_format.json_schema"},
      {R"({"output_format": {"type": "json_object"},
           "output_config": {"format": {"type": "json_object"}}})",
       "output_format.type"},
      {R"({"structured_outputs": {}})", "structured_outputs.json"},
  };
  for (const auto& [fields, name] : cases) EXPECT_EQ(WrongFieldOfMessages(fields), name) << fields;
}

TEST(MessagesRequest, ReadsToolsAndTheirChoice) {
  const std::string tools = R"({"tools": [{"name": "get", "description": "Gets.",
      "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}},
      {"type": "custom", "name": "put", "input_schema": {}}], "tool_choice": )";
  const v1::ChatInput chat =
      ReadGoodMessages(tools + R"({"type": "any", "disable_parallel_tool_use": true}})").chat();
  ASSERT_EQ(chat.tools_size(), 2);
  EXPECT_EQ(chat.tools(0).name(), "get");
  EXPECT_EQ(chat.tools(0).description(), "Gets.");
  EXPECT_EQ(chat.tools(0).parameters(), R"({"type":"object"})");
  EXPECT_TRUE(chat.tool_choice().single_call());
  const std::vector<std::pair<std::string, v1::ToolChoice::Mode>> modes = {
      {"any", v1::ToolChoice::MODE_REQUIRED},
      {"auto", v1::ToolChoice::MODE_AUTO},
      {"none", v1::ToolChoice::MODE_NONE}};
  for (const auto& [type, mode] : modes) {
    const v1::ToolChoice choice =
        ReadGoodMessages(absl::StrCat(tools, R"({"type": ")", type, R"("}})")).chat().tool_choice();
    EXPECT_EQ(choice.mode(), mode);
    EXPECT_FALSE(choice.single_call());
  }
  const v1::ToolChoice named =
      ReadGoodMessages(tools + R"({"type": "tool", "name": "put"}})").chat().tool_choice();
  EXPECT_EQ(named.mode(), v1::ToolChoice::MODE_NAMED);
  EXPECT_EQ(named.name(), "put");
}

TEST(MessagesRequest, ReadsHowToSample) {
  const v1::GenerateRequest request = ReadGoodMessages(R"({"stream": true, "temperature": 0.5,
      "top_p": 0.25, "top_k": 3, "stop_sequences": ["a", "b"], "metadata": {"user_id": "u"},
      "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}}})");
  EXPECT_TRUE(request.stream());
  EXPECT_EQ(request.sampling_params().max_tokens(), 9);
  EXPECT_EQ(request.sampling_params().temperature(), 0.5f);
  EXPECT_EQ(request.sampling_params().top_p(), 0.25f);
  EXPECT_EQ(request.sampling_params().top_k(), 3);
  EXPECT_THAT(request.sampling_params().stop(), ElementsAre("a", "b"));
  EXPECT_EQ(request.user(), "u");
  EXPECT_EQ(request.response_format().json_schema(), "{}");
}

TEST(MessagesRequest, HashesTheNameOfAUserThatIsTooLong) {
  const auto user_of = [](const std::string& id) {
    return ReadGoodMessages(Json({{"metadata", {{"user_id", id}}}}).dump()).user();
  };
  EXPECT_EQ(user_of(std::string(256, 'a')), std::string(256, 'a'));
  EXPECT_EQ(user_of(std::string(257, 'a')).size(), 64);
  EXPECT_NE(user_of(std::string(257, 'a')), user_of(std::string(257, 'b')));
}

TEST(MessagesRequest, TreatsEachFieldAsItsTableSays) {
  CheckFieldUses(MessagesFields(), MessagesBody("{}"), ReadMessages);
}

TEST(MessagesRequest, TheDocumentHasTheTable) {
  CheckFieldDocument(MessagesFields(), "/v1/messages");
}

TEST(MessagesRequest, CallsTheRoutersFieldsByTheirNamesHere) {
  const std::vector<std::pair<std::string, std::string>> names = {
      {"sampling_params.stop", "stop_sequences"},
      {"chat.messages[3].role", "messages"},
      {"response_format.json_schema", "output_config.format"},
      {"sampling_params.top_p", "top_p"}};
  for (const auto& [field, name] : names) {
    const ApiError error = InMessagesWords(ApiErrorOf(InvalidField(field, "x")));
    EXPECT_EQ(error.param, name);
    EXPECT_EQ(error.message, name + ": x");
  }
}

TEST(MessagesRequest, IsOnePromptWithItsFormat) {
  const ToolForm form = ToolForm::OfTemplate("");
  const ApiContext context = {.model = "m", .request_id = "q", .tool_form = form};
  auto request = ReadMessagesRequest(MessagesBody("{}").dump(), context);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_FALSE(request->stream);
  ASSERT_EQ(request->prompts.size(), 1);
  std::string out;
  v1::GenerateResponse response;
  response.mutable_complete()->set_text("Hello");
  request->format->Add(0, response, out);
  request->format->Finish(out);
  EXPECT_EQ(Json::parse(out).at("content").at(0).at("text"), "Hello");
}

TEST(CountTokens, ReadsAPromptWithoutMaxTokens) {
  const ToolForm form{};
  const ApiContext context = {.model = "m", .request_id = "q", .tool_form = form};
  const auto request = ReadCountTokens(
      R"({"model": "m", "system": "S", "messages": [{"role": "user", "content": "Hi"}],
          "tools": [{"name": "get", "input_schema": {}}]})",
      context);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_THAT(MessagesOf(*request), ElementsAre("system: S", "user: Hi"));
  EXPECT_EQ(request->chat().tools_size(), 1);
  EXPECT_EQ(FieldOf(ReadCountTokens(R"({"model": "m"})", context).status()), "messages");
  EXPECT_EQ(CountTokensBody(12), R"({"input_tokens":12})");
}

}  // namespace
}  // namespace baton
