#include "router/responses/responses_request.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/rpc/limits.h"
#include "router/responses/response_object.h"
#include "tests/router/api/field_uses.h"
#include "tests/router/api/shown_chat.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using Json = nlohmann::ordered_json;

absl::StatusOr<v1::GenerateRequest> ReadResponses(const Json& body) {
  const ToolForm form{};
  return ReadResponsesPrompt(body, {.model = "m", .request_id = "q", .tool_form = form});
}

v1::GenerateRequest ReadGoodResponses(const std::string& body) {
  auto request = ReadResponses(Json::parse(body));
  EXPECT_TRUE(request.ok()) << request.status() << body;
  return request.ok() ? *std::move(request) : v1::GenerateRequest();
}

std::string WrongFieldOfResponses(const std::string& body) {
  return FieldOf(ReadResponses(Json::parse(body)).status());
}

TEST(ResponsesRequest, TakesAStringForAUsersMessage) {
  const v1::GenerateRequest request =
      ReadGoodResponses(R"({"model": "m", "input": "Hi", "instructions": "Be brief."})");
  EXPECT_THAT(MessagesOf(request), ElementsAre("system: Be brief.", "user: Hi"));
  EXPECT_EQ(request.model(), "m");
  EXPECT_EQ(request.request_id(), "q");
  EXPECT_FALSE(request.stream());
}

TEST(ResponsesRequest, JoinsCallsAndReasoningToTheAssistantsMessage) {
  EXPECT_THAT(MessagesOf(ReadGoodResponses(R"({"input": [
      {"role": "developer", "content": "Be brief."},
      {"type": "message", "role": "user", "content": [
          {"type": "input_text", "text": "How warm"}, {"type": "input_text", "text": "is it?"}]},
      {"type": "reasoning", "id": "rs", "summary": [],
       "content": [{"type": "reasoning_text", "text": "hm"}]},
      {"type": "message", "role": "assistant", "id": "msg", "status": "completed", "content": [
          {"type": "output_text", "text": "I look.", "annotations": [], "logprobs": []}]},
      {"type": "function_call", "call_id": "1", "name": "get", "arguments": "{\"a\":1}"},
      {"type": "function_call", "call_id": "2", "name": "put"},
      {"type": "function_call_output", "call_id": "1", "output": "warm"},
      {"type": "function_call_output", "call_id": "2", "output": [
          {"type": "input_text", "text": "done"}]},
      {"type": "reasoning", "summary": [{"type": "summary_text", "text": "so"}]},
      {"type": "function_call", "call_id": "3", "name": "end", "arguments": "{}"}]})")),
              ElementsAre("system: Be brief.", "user: How warm\nis it?",
                          "assistant: I look. (hm) 1=get({\"a\":1}) 2=put({})", "tool: warm <1>",
                          "tool: done <2>", "assistant:  (so) 3=end({})"));
}

TEST(ResponsesRequest, JoinsSystemsAndDevelopersThatFollowOneAnother) {
  EXPECT_THAT(
      MessagesOf(ReadGoodResponses(R"({"instructions": "Be brief.", "input": [
      {"role": "developer", "content": "Be kind."}, {"role": "system", "content": "Be fast."},
      {"role": "user", "content": "Hi"}, {"role": "developer", "content": "Be slow."}]})")),
      ElementsAre("system: Be brief.\n\nBe kind.\n\nBe fast.", "user: Hi", "system: Be slow."));
}

TEST(ResponsesRequest, NamesTheItemThatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({})", "input"},
      {R"({"input": 1})", "input"},
      {R"({"input": ["x"]})", "input[0]"},
      {R"({"input": [{"role": "king", "content": "x"}]})", "input[0].role"},
      {R"({"input": [{"role": "user"}]})", "input[0].content"},
      {R"({"input": [{"type": "item_reference", "id": "msg"}]})", "input[0].type"},
      {R"({"input": [{"type": "picture"}]})", "input[0].type"},
      {R"({"input": [{"type": "function_call", "name": "x"}]})", "input[0].call_id"},
      {R"({"input": [{"type": "function_call", "call_id": "x"}]})", "input[0].name"},
      {R"({"input": [{"type": "function_call_output", "output": ""}]})", "input[0].call_id"},
      {R"({"input": [{"type": "function_call_output", "call_id": "1"}]})", "input[0].output"},
      {R"({"input": [{"role": "user", "content": [{"type": "input_image"}]}]})",
       "input[0].content[0].type"},
      {R"({"input": [{"role": "user", "content": [{"type": "input_text"}]}]})",
       "input[0].content[0].text"},
      {R"({"input": "x", "tools": [{"type": "web_search"}]})", "tools[0].type"},
      {R"({"input": "x", "tools": [{"type": "function"}]})", "tools[0].name"},
      {R"({"input": "x", "tools": [{"type": "function", "name": "a b"}]})", "tools[0].name"},
      {R"({"input": "x", "tools": [{"type": "custom", "name": "f", "format": {"type": "xml"}}]})",
       "tools[0].format.type"},
      {R"({"input": "x", "tool_choice": "sometimes"})", "tool_choice"},
      {R"({"input": "x", "tool_choice": "required"})", "tool_choice"},
      {R"({"input": "x", "tool_choice": {"type": "mcp"}})", "tool_choice.type"},
      {R"({"input": "x", "include": [1]})", "include[0]"},
      {R"({"input": "x", "metadata": {"a": 1}})", "metadata"},
      {R"({"input": "x", "top_logprobs": 21})", "top_logprobs"},
      {R"({"input": "x", "max_output_tokens": 0})", "max_output_tokens"},
      {R"({"input": "x", "text": {"format": {"type": "xml"}}})", "text.format.type"},
      {R"({"input": "x", "text": {"format": {"type": "json_schema", "name": "n"}}})",
       "text.format.schema"},
      {R"({"input": "x", "text": {"format": {"type": "json_schema",
           "json_schema": {"schema": {}}}}})",
       "text.format.json_schema"},
      {R"({"input": "x", "text": {"format": {"type": "text", "schema": {}}}})",
       "text.format.schema"},
      {R"({"input": "x", "text": {"format": {"type": "json_object"}}, "guided_regex": "a"})",
       "guided_json"},
  };
  for (const auto& [body, field] : cases) EXPECT_EQ(WrongFieldOfResponses(body), field) << body;
}

TEST(ResponsesRequest, TakesTheFormsOfTheChatApi) {
  EXPECT_EQ(ReadGoodResponses(R"({"input": "x", "structured_outputs": {"regex": "a"}})")
                .response_format()
                .regex(),
            "a");
  EXPECT_EQ(ReadGoodResponses(R"({"input": "x", "response_format": {"type": "json_schema",
                                  "json_schema": {"schema": {"a": 1}}}})")
                .response_format()
                .json_schema(),
            R"({"a":1})");
}

TEST(ResponsesRequest, ReadsToolsAndTheirChoice) {
  const std::string tools = R"("input": "x", "tools": [
      {"type": "function", "name": "get", "description": "Gets.", "strict": true,
       "parameters": {"type": "object", "properties": {}}},
      {"type": "function", "name": "put", "parameters": null}])";
  const v1::ChatInput named =
      ReadGoodResponses(absl::StrCat("{", tools, R"(, "parallel_tool_calls": false,
          "tool_choice": {"type": "function", "name": "put"}})"))
          .chat();
  ASSERT_EQ(named.tools_size(), 2);
  EXPECT_EQ(named.tools(0).name(), "get");
  EXPECT_EQ(named.tools(0).description(), "Gets.");
  EXPECT_EQ(named.tools(0).parameters(), R"({"type":"object","properties":{}})");
  EXPECT_EQ(named.tool_choice().mode(), v1::ToolChoice::MODE_NAMED);
  EXPECT_EQ(named.tool_choice().name(), "put");
  EXPECT_TRUE(named.tool_choice().single_call());

  const v1::ChatInput allowed = ReadGoodResponses(absl::StrCat("{", tools, R"(, "tool_choice": {
      "type": "allowed_tools", "mode": "required",
      "tools": [{"type": "function", "name": "put"}]}})"))
                                    .chat();
  ASSERT_EQ(allowed.tools_size(), 1);
  EXPECT_EQ(allowed.tools(0).name(), "put");
  EXPECT_EQ(allowed.tool_choice().mode(), v1::ToolChoice::MODE_REQUIRED);
  EXPECT_EQ(WrongFieldOfResponses(absl::StrCat("{", tools, R"(, "tool_choice": {
      "type": "allowed_tools", "mode": "auto", "tools": [{"name": "eat"}]}})")),
            "tool_choice.tools");
}

TEST(ResponsesRequest, ToolsAreBoundedInNumberAndAllowedOnesNamedOnce) {
  Json body = {{"input", "x"}, {"tools", Json::array()}};
  for (size_t i = 0; i < kMaxTools; ++i) {
    body["tools"].push_back({{"type", "function"}, {"name", absl::StrCat("t", i)}});
  }
  EXPECT_TRUE(ReadResponses(body).ok());
  const auto allow = [&](const std::vector<std::string>& names) {
    Json tools = Json::array();
    for (const std::string& name : names) tools.push_back({{"type", "function"}, {"name", name}});
    body["tool_choice"] = {{"type", "allowed_tools"}, {"mode", "auto"}, {"tools", tools}};
    return FieldOf(ReadResponses(body).status());
  };
  EXPECT_EQ(allow({"t1", "t1"}), "tool_choice.tools");
  EXPECT_EQ(allow({}), "tool_choice.tools");
  EXPECT_EQ(allow({""}), "tool_choice.tools[0].name");
  body.erase("tool_choice");
  body["tools"].push_back({{"type", "function"}, {"name", "more"}});
  EXPECT_EQ(FieldOf(ReadResponses(body).status()), "tools");
}

TEST(ResponsesRequest, WhatIsOnlyToldBackIsBounded) {
  const auto with = [](const char* field, Json value) -> std::string {
    const auto request = ReadResponses({{"input", "x"}, {field, std::move(value)}});
    return request.ok() ? "" : FieldOf(request.status());
  };
  const auto pairs = [](size_t count) {
    Json metadata = Json::object();
    for (size_t i = 0; i < count; ++i) metadata[absl::StrCat("k", i)] = "v";
    return metadata;
  };
  EXPECT_EQ(with("metadata", pairs(16)), "");
  EXPECT_EQ(with("metadata", pairs(17)), "metadata");
  // Characters count, not bytes.
  std::string wide;
  for (int i = 0; i < 512; ++i) wide += "\xc3\xa9";
  EXPECT_EQ(with("metadata", {{std::string(64, 'k'), wide}}), "");
  EXPECT_EQ(with("metadata", {{std::string(65, 'k'), "v"}}), "metadata");
  EXPECT_EQ(with("metadata", {{"k", wide + "v"}}), "metadata");
  for (const char* field : {"prompt_cache_key", "safety_identifier"}) {
    EXPECT_EQ(with(field, wide), "");
    EXPECT_EQ(with(field, wide + "v"), field);
    EXPECT_EQ(with(field, 1), field);
  }
}

// It is told back in each event that has the whole response.
TEST(ResponsesRequest, AChoiceOfToolsIsBounded) {
  const ToolForm form{};
  const ApiContext context{.model = "m", .request_id = "q", .tool_form = form};
  Json body = {{"input", "x"}, {"tools", Json::array()}};
  Json allowed = Json::array();
  for (size_t i = 0; i < kMaxTools; ++i) {
    const std::string number = absl::StrCat(i);
    const std::string name = number + std::string(64 - number.size(), 'f');
    body["tools"].push_back({{"type", "function"}, {"name", name}});
    allowed.push_back({{"type", "function"}, {"name", name}});
  }
  body["tool_choice"] = {{"type", "allowed_tools"}, {"mode", "auto"}, {"tools", allowed}};
  absl::StatusOr<ApiRequest> request = ReadResponsesRequest(body.dump(), context);
  EXPECT_TRUE(request.ok()) << request.status();
  body["tool_choice"]["why"] = std::string(size_t{64} << 10, 'w');
  request = ReadResponsesRequest(body.dump(), context);
  EXPECT_EQ(FieldOf(request.status()), "tool_choice");
  EXPECT_THAT(std::string(request.status().message()), testing::HasSubstr("at most 65536"));
}

TEST(ResponsesRequest, WhatNobodyReadsIsToldBackWhereItIsShort) {
  const ToolForm form{};
  const ApiContext context{.model = "m", .request_id = "q", .tool_form = form};
  const auto told = [&](const Json& value) {
    const Json body = {{"max_tool_calls", value},
                       {"reasoning", {{"effort", value}}},
                       {"text", {{"verbosity", value}}},
                       {"tools", {{{"name", "f"}, {"strict", value}}}}};
    const Json response = NewResponse(body, context);
    return std::vector<Json>{response["max_tool_calls"], response["reasoning"]["effort"],
                             response["text"]["verbosity"], response["tools"][0]["strict"]};
  };
  for (const Json& value : {Json("low"), Json(3), Json(true), Json(std::string(512, 'a'))}) {
    EXPECT_THAT(told(value), testing::Each(value));
  }
  for (const Json& value : {Json(std::string(513, 'a')), Json::array({"low"})}) {
    EXPECT_THAT(told(value), testing::Each(Json()));
  }
}

TEST(ResponsesRequest, ReadsHowToSample) {
  const v1::GenerateRequest request = ReadGoodResponses(R"({"input": "x", "stream": true,
      "temperature": 0.5, "top_p": 0.25, "max_output_tokens": 9, "top_logprobs": 2, "user": "u",
      "include": ["reasoning.encrypted_content", "message.output_text.logprobs"], "seed": 4,
      "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}}})");
  EXPECT_TRUE(request.stream());
  EXPECT_EQ(request.sampling_params().temperature(), 0.5f);
  EXPECT_EQ(request.sampling_params().top_p(), 0.25f);
  EXPECT_EQ(request.sampling_params().max_tokens(), 9);
  EXPECT_EQ(request.sampling_params().logprobs(), 2);
  EXPECT_EQ(request.sampling_params().seed(), 4);
  EXPECT_EQ(request.user(), "u");
  EXPECT_EQ(request.response_format().json_schema(), R"({"type":"object"})");
  EXPECT_FALSE(
      ReadGoodResponses(R"({"input": "x", "top_logprobs": 2})").sampling_params().has_logprobs());
}

TEST(ResponsesRequest, HostedToolsAreNamedInTheWarningAndNotToldBack) {
  const ToolForm form{};
  const ApiContext context{.model = "m", .request_id = "q", .tool_form = form};
  const Json body = Json::parse(R"({"input": "x", "tools": [
      {"type": "web_search", "external_web_access": true},
      {"type": "namespace", "name": "s", "description": "d", "tools": [
          {"type": "function", "name": "f", "strict": false, "parameters": {"type": "object"}},
          {"type": "web_search"}, {"type": "namespace", "name": "t", "tools": []}]},
      {"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark",
                                                     "definition": "start: \"a\""}},
      {"type": "custom", "name": "text"}]})");
  const auto request = ReadResponsesRequest(body.dump(), context);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->warning, "left out, since Baton runs no hosted tools: namespace, web_search");
  EXPECT_EQ(NewResponse(body, context)["tools"], Json::parse(R"([
      {"type": "namespace", "name": "s", "description": "d", "tools": [
          {"type": "function", "name": "f", "description": null,
           "parameters": {"type": "object"}, "strict": false}]},
      {"type": "custom", "name": "patch", "description": null,
       "format": {"type": "grammar", "syntax": "lark", "definition": "start: \"a\""}},
      {"type": "custom", "name": "text", "description": null, "format": {"type": "text"}}])"));
}

TEST(ResponsesRequest, TreatsEachFieldAsItsTableSays) {
  CheckFieldUses(ResponsesFields(), {{"input", "Hi"}}, ReadResponses);
}

TEST(ResponsesRequest, TheDocumentHasTheTable) {
  CheckFieldDocument(ResponsesFields(), "/v1/responses");
}

TEST(ResponsesRequest, CallsTheRoutersFieldsByTheirNamesHere) {
  const absl::Status status = InvalidField("sampling_params.max_tokens", "must be at least 1");
  const ApiError error = InResponsesWords(ApiErrorOf(status));
  EXPECT_EQ(error.param, "max_output_tokens");
  EXPECT_EQ(error.message, "max_output_tokens: must be at least 1");
  EXPECT_EQ(InResponsesWords(ApiErrorOf(InvalidField("chat.messages[3].role", "x"))).param,
            "input");
  EXPECT_EQ(ApiErrorOf(InvalidParam("text.format", "x")).param, "text.format");
}

TEST(ResponsesRequest, IsOnePromptWithItsFormat) {
  const ToolForm form = ToolForm::OfTemplate("");
  const ApiContext context = {.model = "m", .request_id = "q", .created = 5, .tool_form = form};
  auto request = ReadResponsesRequest(R"({"input": "Hi", "stream": true})", context);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_TRUE(request->stream);
  ASSERT_EQ(request->prompts.size(), 1);
  EXPECT_TRUE(request->prompts[0].stream());
  std::string out;
  v1::GenerateResponse response;
  response.mutable_chunk()->set_text("Hello");
  request->format->Add(0, response, out);
  EXPECT_EQ(out.rfind("event: response.created\ndata: {", 0), 0) << out;
  EXPECT_EQ(ReadResponsesRequest("[]", context).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton
