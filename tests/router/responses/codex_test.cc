// The requests that Codex CLI was recorded to send (tests/data/codex), and the calls that it wants
// in the answers.
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/protocol/validate_chat.h"
#include "router/responses/responses_request.h"
#include "tests/router/api/played_answer.h"
#include "tests/router/api/shown_chat.h"

namespace baton {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::ordered_json;

Json Recorded(const std::string& name) {
  std::ifstream file(std::string(BATON_TEST_DATA "/codex/") + name + ".json");
  std::stringstream text;
  text << file.rdbuf();
  return Json::parse(text.str());
}

std::vector<std::string> AllRecorded() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(BATON_TEST_DATA "/codex")) {
    names.push_back(entry.path().stem().string());
  }
  return names;
}

// The request to a model that writes calls as Qwen does.
absl::StatusOr<ApiRequest> ReadFor(const Json& body) {
  static const ToolForm& form =
      *new ToolForm(ToolForm::OfTemplate("{{ tools }}<tool_call>{\"name\"</tool_call>"));
  return ReadResponsesRequest(body.dump(), {.model = "m", .request_id = "q", .tool_form = form});
}

std::vector<std::string> ToolNamesOf(const v1::GenerateRequest& request) {
  std::vector<std::string> names;
  for (const v1::Tool& tool : request.chat().tools()) names.push_back(tool.name());
  return names;
}

TEST(Codex, EachRecordedRequestIsReadAndValid) {
  const std::vector<std::string> names = AllRecorded();
  EXPECT_EQ(names.size(), 8u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const auto request = ReadFor(Recorded(name));
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_TRUE(request->stream);
    const bool functions_only = absl::StartsWith(name, "functions_only");
    EXPECT_EQ(request->warning,
              functions_only ? "" : "left out, since Baton runs no hosted tools: web_search");
    const v1::ChatInput& chat = request->prompts[0].chat();
    Violations violations("");
    CheckChat(chat, violations);
    EXPECT_THAT(violations.Take(), IsEmpty());
    EXPECT_EQ(chat.messages(0).role(), "system");
    EXPECT_THAT(ToolNamesOf(request->prompts[0]), Contains("exec_command"));
    if (!functions_only) {
      EXPECT_THAT(ToolNamesOf(request->prompts[0]), Contains("multi_agent_v1__spawn_agent"));
    }
  }
}

TEST(Codex, EarlierCallsAreThoseOfTheFlatTools) {
  const auto request = ReadFor(Recorded("mcp_turn_3_flat_name_refused"));
  ASSERT_TRUE(request.ok()) << request.status();
  const std::vector<std::string> messages = MessagesOf(request->prompts[0]);
  EXPECT_THAT(ToolNamesOf(request->prompts[0]), Contains("mcp__clock__time_in"));
  EXPECT_THAT(messages, Contains("assistant:  call_1=mcp__clock__time_in({\"city\": \"Paris\"})"));
  EXPECT_THAT(messages,
              Contains("tool: Wall time: 0.0023 seconds\nOutput:\n12:00 in Paris <call_1>"));
  EXPECT_THAT(messages, Contains("tool: unsupported call: mcp__clock__time_in <call_2>"));
}

// What a model writes, as one piece or byte by byte.
std::string AnswerTo(const Json& body, const std::string& text, bool in_bytes) {
  auto request = ReadFor(body);
  EXPECT_TRUE(request.ok()) << request.status();
  std::vector<v1::GenerateResponse> responses;
  for (size_t i = 0; in_bytes && i < text.size(); ++i)
    responses.push_back(ChunkOf(text.substr(i, 1)));
  PlayedAnswer end;
  if (!in_bytes) end.text = text;
  responses.push_back(Whole(end).front());
  return Written(*request->format, responses);
}

TEST(Codex, ACallOfAnMcpToolGoesBackByInnerNameAndNamespace) {
  const std::string text =
      "<tool_call>\n{\"name\": \"mcp__clock__time_in\", \"arguments\": {\"city\": \"Rome\"}}\n"
      "</tool_call>";
  Json body = Recorded("mcp_turn_1");
  for (const bool in_bytes : {false, true}) {
    const std::vector<Json> events = EventsOf(AnswerTo(body, text, in_bytes));
    std::vector<Json> items;
    for (const Json& event : events) {
      if (event.contains("item")) items.push_back(event.at("item"));
    }
    for (const Json& item : events.back().at("response").at("output")) items.push_back(item);
    ASSERT_EQ(items.size(), 3u) << "added, done and completed";
    for (const Json& item : items) {
      EXPECT_EQ(item.at("type"), "function_call");
      EXPECT_EQ(item.at("name"), "time_in");
      EXPECT_EQ(item.at("namespace"), "mcp__clock");
    }
    EXPECT_EQ(items.back().at("arguments"), "{\"city\": \"Rome\"}");
  }
  body["stream"] = false;
  const Json output = Json::parse(AnswerTo(body, text, /*in_bytes=*/false)).at("output");
  EXPECT_EQ(output.at(0).at("name"), "time_in");
  EXPECT_EQ(output.at(0).at("namespace"), "mcp__clock");
}

TEST(Codex, AFunctionAndANameThatNobodyHasAreCalledAsTheModelWritesThem) {
  for (const char* name : {"exec_command", "multi_agent_v1__no_such_tool", "time_in"}) {
    Json body = Recorded("mcp_turn_1");
    body["stream"] = false;
    const std::string text =
        absl::StrCat("<tool_call>{\"name\": \"", name, "\", \"arguments\": {}}</tool_call>");
    const Json call = Json::parse(AnswerTo(body, text, /*in_bytes=*/false)).at("output").at(0);
    EXPECT_EQ(call.at("name"), name);
    EXPECT_FALSE(call.contains("namespace"));
  }
}

TEST(Codex, ApplyPatchIsACustomToolThereAndBack) {
  Json body = Recorded("default");
  body["stream"] = false;
  body["tools"].push_back(Json::parse(R"({"type": "custom", "name": "apply_patch",
      "description": "d", "format": {"type": "grammar", "syntax": "lark",
                                     "definition": "start: \"*** Begin Patch\""}})"));
  const std::string text =
      "<tool_call>{\"name\": \"apply_patch\", \"arguments\": {\"input\": \"*** Begin Patch\\n\"}}"
      "</tool_call>";
  const Json call = Json::parse(AnswerTo(body, text, /*in_bytes=*/false)).at("output").at(0);
  EXPECT_EQ(call.at("type"), "custom_tool_call");
  EXPECT_EQ(call.at("input"), "*** Begin Patch\n");
  body["input"].push_back(call);
  body["input"].push_back({{"type", "custom_tool_call_output"},
                           {"call_id", call.at("call_id")},
                           {"output", "Success"}});
  const auto request = ReadFor(body);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_THAT(MessagesOf(request->prompts[0]),
              Contains(HasSubstr("=apply_patch({\"input\": \"*** Begin Patch\\n\"})")));
}

}  // namespace
}  // namespace baton
