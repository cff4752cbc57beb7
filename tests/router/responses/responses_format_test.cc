#include "router/responses/responses_format.h"

#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "router/responses/response_object.h"
#include "router/tools/client_parser.h"
#include "tests/router/api/played_answer.h"
#include "tests/router/api/scripted_parser.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Json = nlohmann::ordered_json;

Json InProgress(const Json& body = {{"input", "Hi"}}) {
  const ToolForm form{};
  return NewResponse(
      body,
      {.model = "m", .request_id = "r", .answer_id = "q", .created = 1000, .tool_form = form});
}

Json WholeResponse(const PlayedAnswer& answer) {
  ResponsesFormat format(InProgress(), /*stream=*/false, NewScriptedParser());
  return Json::parse(Written(format, Whole(answer)));
}

std::vector<Json> StreamOf(const std::vector<v1::GenerateResponse>& responses) {
  ResponsesFormat format(InProgress(), /*stream=*/true, NewScriptedParser());
  return EventsOf(Written(format, responses));
}

TEST(ResponsesFormat, StreamsATextAsTypedEvents) {
  const std::vector<Json> events = StreamOf({ChunkOf("Hel"), ChunkOf("lo"), EndOf({})});
  EXPECT_THAT(
      TypesOf(events),
      ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                  "response.content_part.added", "response.output_text.delta",
                  "response.output_text.delta", "response.output_text.done",
                  "response.content_part.done", "response.output_item.done", "response.completed"));
  EXPECT_EQ(events[5], Json::parse(R"({
      "type": "response.output_text.delta", "sequence_number": 5, "item_id": "msg_q_0",
      "output_index": 0, "content_index": 0, "delta": "lo", "logprobs": []})"));
  EXPECT_EQ(events[8].at("item"), Json::parse(R"({
      "id": "msg_q_0", "type": "message", "status": "completed", "role": "assistant", "content": [
          {"type": "output_text", "annotations": [], "logprobs": [], "text": "Hello"}]})"));
}

TEST(ResponsesFormat, StreamsReasoningAndCalls) {
  const PlayedAnswer answer{.text = "~rhm~cget~a{}"};
  const std::vector<Json> events = StreamOf(Whole(answer));
  EXPECT_THAT(
      TypesOf(events),
      ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                  "response.content_part.added", "response.reasoning_text.delta",
                  "response.reasoning_text.done", "response.content_part.done",
                  "response.output_item.done", "response.output_item.added",
                  "response.function_call_arguments.delta", "response.function_call_arguments.done",
                  "response.output_item.done", "response.completed"));
  EXPECT_EQ(events[8].at("item"), Json::parse(R"({
      "id": "fc_call0", "type": "function_call", "status": "in_progress", "call_id": "call_call0",
      "name": "get", "arguments": ""})"));
  EXPECT_EQ(events[11].at("item").at("arguments"), "{}");
  EXPECT_EQ(events[7].at("item"), Json::parse(R"({
      "id": "rs_q_0", "type": "reasoning", "status": "completed", "summary": [],
      "content": [{"type": "reasoning_text", "text": "hm"}]})"));
}

std::unique_ptr<AnswerParser> ParserWithTools() {
  auto tools = std::make_shared<ToolTable>();
  tools->Add({.space = "mcp__clock", .name = "time_in"});
  tools->Add({.name = "apply_patch", .is_custom = true});
  return ForClient(NewScriptedParser(), std::move(tools));
}

TEST(ResponsesFormat, CallsOfANamespaceHaveTheirInnerNameAndItInEveryEvent) {
  const PlayedAnswer answer{.text = "~cmcp__clock__time_in~a{\"city\": \"Rome\"}"};
  ResponsesFormat stream(InProgress(), /*stream=*/true, ParserWithTools());
  const std::vector<Json> events = EventsOf(Written(stream, Whole(answer)));
  const Json call = Json::parse(R"({"id": "fc_call0", "type": "function_call",
      "status": "completed", "call_id": "call_call0", "name": "time_in",
      "namespace": "mcp__clock", "arguments": "{\"city\": \"Rome\"}"})");
  EXPECT_EQ(events[2].at("item").at("name"), "time_in");
  EXPECT_EQ(events[2].at("item").at("namespace"), "mcp__clock");
  EXPECT_EQ(events[5].at("type"), "response.output_item.done");
  EXPECT_EQ(events[5].at("item"), call);
  EXPECT_EQ(events.back().at("response").at("output"), Json::array({call}));
  ResponsesFormat whole(InProgress(), /*stream=*/false, ParserWithTools());
  EXPECT_EQ(Json::parse(Written(whole, Whole(answer))).at("output"), Json::array({call}));
}

TEST(ResponsesFormat, ACustomToolsCallIsAnItemWithItsInput) {
  const PlayedAnswer answer{.text = "~capply_patch~a{\"input\": \"a\\n\\\"b\\\"\"}"};
  ResponsesFormat stream(InProgress(), /*stream=*/true, ParserWithTools());
  const std::vector<Json> events = EventsOf(Written(stream, Whole(answer)));
  EXPECT_THAT(
      TypesOf(events),
      ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                  "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done",
                  "response.output_item.done", "response.completed"));
  const Json call = Json::parse(R"({"id": "ctc_call0", "type": "custom_tool_call",
      "status": "completed", "call_id": "call_call0", "name": "apply_patch",
      "input": "a\n\"b\""})");
  EXPECT_EQ(events[2].at("item").at("input"), "");
  EXPECT_EQ(events[3].at("item_id"), "ctc_call0");
  EXPECT_EQ(events[3].at("delta"), "a\n\"b\"");
  EXPECT_EQ(events[4].at("input"), "a\n\"b\"");
  EXPECT_EQ(events[5].at("item"), call);
  EXPECT_EQ(events.back().at("response").at("output"), Json::array({call}));
  ResponsesFormat whole(InProgress(), /*stream=*/false, ParserWithTools());
  EXPECT_EQ(Json::parse(Written(whole, Whole(answer))).at("output"), Json::array({call}));
}

TEST(ResponsesFormat, WritesNothingBeforeTheFirstResponse) {
  ResponsesFormat stream(InProgress(), /*stream=*/true, NewScriptedParser());
  std::string out;
  stream.Begin(0, 7);
  EXPECT_THAT(out, IsEmpty());
  ResponsesFormat whole(InProgress(), /*stream=*/false, NewScriptedParser());
  whole.Add(0, ChunkOf("Hi"), out);
  EXPECT_THAT(out, IsEmpty());
}

TEST(ResponsesFormat, EndsAStreamWithTheResponseThatIsTheWholeAnswerElsewhere) {
  std::mt19937 random(1);
  for (int round = 0; round < 40; ++round) {
    const PlayedAnswer answer = RandomAnswer(random, /*with_tokens=*/round % 2 == 0);
    const std::vector<Json> events = StreamOf(Streamed(answer, random));
    EXPECT_EQ(events.back().at("response"), WholeResponse(answer)) << answer.text;
  }
}

// The memory of a text whose shared parts take it once.
size_t MemoryOf(const absl::Cord& text) {
  std::set<const char*> seen;
  size_t bytes = 0;
  for (const absl::string_view part : text.Chunks()) {
    if (seen.insert(part.data()).second) bytes += part.size();
  }
  return bytes;
}

TEST(ResponsesFormat, TheLastEventsShareTheLongTextsThatTheyRepeat) {
  ResponsesFormat format(InProgress(), /*stream=*/true, NewScriptedParser());
  constexpr size_t kTokens = 4000;
  std::string out;
  for (size_t i = 0; i < kTokens; ++i) {
    v1::GenerateResponse chunk = ChunkOf("abc ");
    *chunk.mutable_chunk()->add_logprobs() = LogprobOfToken("abc ", i);
    format.Add(0, chunk, out);
    ASSERT_TRUE(format.TakeRest().empty()) << "an event of one token is short";
  }
  format.Add(0, EndOf({}), out);
  absl::Cord rest = format.TakeRest();
  std::string end;
  format.Finish(end);
  EXPECT_THAT(end, IsEmpty()) << "the last event is long";
  rest.Append(format.TakeRest());
  const std::vector<Json> events = EventsOf(out + std::string(rest));
  ASSERT_GE(events.size(), kTokens + 4);
  const Json& whole = events.back().at("response").at("output").at(0).at("content").at(0);
  const size_t once = whole.dump().size();
  EXPECT_EQ(whole.at("logprobs").size(), kTokens);
  EXPECT_GT(rest.size(), 4 * once);
  EXPECT_LT(MemoryOf(rest), once + once / 5);
}

// Each item is added, grows and is done before the next one, and its events say what it is.
void CheckGrammar(const std::vector<Json>& events) {
  std::string delta;
  Json logprobs = Json::array(), added = nullptr;
  int64_t items = -1;
  for (size_t i = 0; i < events.size(); ++i) {
    const Json& event = events[i];
    const std::string type = event.at("type");
    EXPECT_EQ(event.at("sequence_number"), i);
    EXPECT_EQ(type == "response.created", i == 0);
    EXPECT_EQ(type == "response.in_progress", i == 1);
    if (event.contains("output_index") && type != "response.output_item.added") {
      ASSERT_FALSE(added.is_null()) << type;
      EXPECT_EQ(event.at("output_index"), items);
    }
    if (event.contains("item_id")) {
      EXPECT_EQ(event.at("item_id"), added.at("id"));
    }
    if (type == "response.output_item.added") {
      ASSERT_TRUE(added.is_null());
      added = event.at("item");
      EXPECT_EQ(event.at("output_index"), ++items);
      delta.clear();
      logprobs = Json::array();
    } else if (event.contains("delta")) {
      delta += event.at("delta").get<std::string>();
      for (const Json& token : event.value("logprobs", Json::array())) logprobs.push_back(token);
    } else if (type == "response.output_item.done") {
      EXPECT_EQ(event.at("item").at("id"), added.at("id"));
      added = nullptr;
    } else if (type == "response.function_call_arguments.done") {
      EXPECT_EQ(event.at("arguments"), delta);
    } else if (event.contains("text")) {
      EXPECT_EQ(event.at("text"), delta);
      EXPECT_EQ(event.value("logprobs", logprobs), logprobs);
    }
  }
  EXPECT_TRUE(added.is_null());
  EXPECT_EQ(events.back().at("response").at("output").size(), static_cast<size_t>(items + 1));
}

TEST(ResponsesFormat, AddsGrowsAndEndsItemsOneAfterTheOther) {
  std::mt19937 random(2);
  for (int round = 0; round < 40; ++round) {
    const PlayedAnswer answer = RandomAnswer(random, /*with_tokens=*/round % 2 == 0);
    CheckGrammar(StreamOf(Streamed(answer, random)));
  }
}

TEST(ResponsesFormat, TellsTheUsageAndWhenItWasDone) {
  const Json response = WholeResponse({.text = "Hi"});
  EXPECT_EQ(response.at("status"), "completed");
  EXPECT_EQ(response.at("created_at"), 1000);
  EXPECT_EQ(response.at("completed_at"), 1003);
  EXPECT_EQ(response.at("usage"), Json::parse(R"({
      "input_tokens": 7, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
      "output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 16})"));
}

TEST(ResponsesFormat, IsIncompleteWhereTheTokensWereTooFew) {
  const PlayedAnswer answer{.text = "~rhm~tIt i", .finish_reason = v1::FINISH_REASON_LENGTH};
  const std::vector<Json> events = StreamOf(Whole(answer));
  EXPECT_EQ(events.back().at("type"), "response.incomplete");
  const Json& response = events.back().at("response");
  EXPECT_EQ(response.at("incomplete_details"), Json({{"reason", "max_output_tokens"}}));
  EXPECT_EQ(response.at("completed_at"), nullptr);
  EXPECT_EQ(response.at("output").at(0).at("status"), "completed");
  EXPECT_EQ(response.at("output").at(1).at("status"), "incomplete");
}

TEST(ResponsesFormat, ACallThatAStopStringCutsIsIncomplete) {
  for (const char* cut : {"~cget~a{ ", "~cget~a{\"city\": \"Os", "~cget~a{}~cput~a{\"a\": [1"}) {
    const PlayedAnswer answer{.text = cut, .stop = "lo"};
    const Json whole = WholeResponse(answer);
    const std::vector<Json> events = StreamOf(Whole(answer));
    for (const Json& response : {whole, events.back().at("response")}) {
      EXPECT_EQ(response.at("status"), "completed") << cut;
      EXPECT_EQ(response.at("output").back().at("status"), "incomplete") << cut;
    }
  }
  EXPECT_EQ(WholeResponse({.text = "~cget~a{}", .stop = "lo"}).at("output").at(0).at("status"),
            "completed");
}

TEST(ResponsesFormat, EndsABrokenStreamWithResponseFailed) {
  const std::vector<std::pair<int, std::string>> codes = {
      {400, "invalid_prompt"}, {429, "rate_limit_exceeded"}, {503, "server_error"}};
  for (const auto& [status, code] : codes) {
    ResponsesFormat format(InProgress(), /*stream=*/true, NewScriptedParser());
    std::string out;
    format.Add(0, ChunkOf("~rhm~tIt i"), out);
    format.Fail(ApiErrorWithStatus(status, "a worker was lost"), out);
    const std::vector<Json> events = EventsOf(out);
    EXPECT_EQ(events.back().at("type"), "response.failed");
    const Json& response = events.back().at("response");
    EXPECT_EQ(response.at("status"), "failed");
    EXPECT_EQ(response.at("error"), Json({{"code", code}, {"message", "a worker was lost"}}));
    EXPECT_EQ(response.at("output").at(0).at("status"), "completed");
    EXPECT_EQ(response.at("output").at(1).at("status"), "incomplete");
  }
}

TEST(ResponsesFormat, FailsInOrderBeforeAnythingHasCome) {
  ResponsesFormat format(InProgress(), /*stream=*/true, NewScriptedParser());
  std::string out;
  format.Fail(ApiErrorWithStatus(503, "no worker"), out);
  EXPECT_THAT(TypesOf(EventsOf(out)),
              ElementsAre("response.created", "response.in_progress", "response.failed"));
}

TEST(ResponsesFormat, EchoesHowTheRequestWasUnderstood) {
  const Json body = Json::parse(R"({
      "input": "Hi", "instructions": "Be brief.", "temperature": 0.25, "store": true, "user": null,
      "metadata": {"a": "b"}, "reasoning": {"effort": "low", "summary": "auto"},
      "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
      "tools": [{"type": "function", "name": "get", "parameters": null}],
      "tool_choice": {"type": "function", "name": "get"}})");
  const Json response = InProgress(body);
  EXPECT_EQ(response.at("id"), "resp_q");
  EXPECT_EQ(response.at("model"), "m");
  EXPECT_EQ(response.at("status"), "in_progress");
  EXPECT_EQ(response.at("instructions"), "Be brief.");
  EXPECT_EQ(response.at("temperature"), 0.25);
  EXPECT_EQ(response.at("top_p").dump(), "0.95");
  EXPECT_EQ(response.at("store"), false);
  EXPECT_EQ(response.at("user"), nullptr);
  EXPECT_EQ(response.at("metadata"), body.at("metadata"));
  EXPECT_EQ(response.at("reasoning"), Json({{"effort", "low"}, {"summary", nullptr}}));
  EXPECT_EQ(response.at("text"), Json::parse(R"({"format": {"type": "json_schema", "name": "n",
      "description": null, "schema": {"type": "object"}, "strict": false}})"));
  EXPECT_EQ(response.at("tools"), Json::parse(R"([{"type": "function", "name": "get",
      "description": null, "parameters": null, "strict": null}])"));
  EXPECT_EQ(response.at("tool_choice"), body.at("tool_choice"));
}

TEST(ResponsesFormat, EchoesTheSamplingThatHoldsWhereTheRequestSetsNone) {
  const ToolForm form{};
  ApiContext context = {.model = "m", .request_id = "q", .tool_form = form};
  const auto echoed = [&](const char* body) {
    const Json response = NewResponse(Json::parse(body), context);
    return absl::StrCat(response.at("temperature").dump(), " ", response.at("top_p").dump());
  };
  EXPECT_EQ(echoed(R"({"input": "Hi"})"), "0.7 0.95");
  EXPECT_EQ(echoed(R"({"input": "Hi", "temperature": null, "top_p": 1})"), "0.7 1");
  EXPECT_EQ(echoed(R"({"input": "Hi", "temperature": 0.123456789})"), "0.123456789 0.95");
  context.default_sampling.set_temperature(0.6F);  // as the model's file or a flag has it
  context.default_sampling.set_top_p(1);
  EXPECT_EQ(echoed(R"({"input": "Hi"})"), "0.6 1");
  EXPECT_EQ(echoed(R"({"input": "Hi", "temperature": 0})"), "0 1");
  context.default_sampling.set_temperature(1e-6F);
  EXPECT_EQ(echoed(R"({"input": "Hi"})"), "1e-06 1");
}

}  // namespace
}  // namespace baton
