#include "router/anthropic/messages_format.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/router/api/played_answer.h"
#include "tests/router/api/scripted_parser.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Json = nlohmann::ordered_json;

MessagesFormat FormatOf(bool stream, uint32_t max_tokens = 9) {
  return MessagesFormat({.request_id = "q",
                         .answer_id = "a",
                         .model = "m",
                         .stream = stream,
                         .max_tokens = max_tokens},
                        NewScriptedParser());
}

Json WholeMessage(const PlayedAnswer& answer) {
  MessagesFormat format = FormatOf(/*stream=*/false);
  return Json::parse(Written(format, Whole(answer)));
}

std::vector<Json> MessageStream(const std::vector<v1::GenerateResponse>& responses) {
  MessagesFormat format = FormatOf(/*stream=*/true);
  format.Begin(0, 7);
  return EventsOf(Written(format, responses));
}

TEST(MessagesFormat, StreamsATextAsNamedEvents) {
  const std::vector<Json> events = MessageStream({ChunkOf("Hel"), ChunkOf("lo"), EndOf({})});
  EXPECT_THAT(TypesOf(events), ElementsAre("message_start", "ping", "content_block_start",
                                           "content_block_delta", "content_block_delta",
                                           "content_block_stop", "message_delta", "message_stop"));
  EXPECT_EQ(events[0], Json::parse(R"({"type": "message_start", "message": {
      "id": "msg_a", "type": "message", "role": "assistant", "model": "m", "content": [],
      "stop_reason": null, "stop_sequence": null, "usage": {
          "input_tokens": 7, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
          "output_tokens": 0}}})"));
  EXPECT_EQ(events[3], Json::parse(R"({"type": "content_block_delta", "index": 0,
      "delta": {"type": "text_delta", "text": "Hel"}})"));
  EXPECT_EQ(events[6], Json::parse(R"({"type": "message_delta",
      "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {
          "input_tokens": 3, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 4,
          "output_tokens": 9}})"));
}

TEST(MessagesFormat, HasThinkingTextAndCallsAsBlocks) {
  EXPECT_EQ(WholeMessage({.text = "~rhm~tIt is~cget~a{\"city\": \"Oslo\"}"}).at("content"),
            Json::parse(R"([
      {"type": "thinking", "thinking": "hm", "signature": ""},
      {"type": "text", "text": "It is", "citations": null},
      {"type": "tool_use", "id": "toolu_call0", "name": "get", "input": {"city": "Oslo"}}])"));
}

TEST(MessagesFormat, WrapsArgumentsThatAreNoObject) {
  const std::string deep = std::string(200, '[') + std::string(200, ']');
  for (const std::string& arguments :
       {std::string("{\"city\": \"Os"), std::string("[1]"), "{\"a\": " + deep + "}"}) {
    const Json message = WholeMessage({.text = "~cget~a" + arguments});
    EXPECT_EQ(message.at("content").at(0).at("input"), Json({{"INVALID_JSON", arguments}}));
  }
  EXPECT_EQ(WholeMessage({.text = "~cget~a"}).at("content").at(0).at("input"), Json::object());
}

TEST(MessagesFormat, TellsWhyTheAnswerEnded) {
  const std::vector<std::pair<PlayedAnswer, Json>> cases = {
      {{.text = "Hi"}, {"end_turn", nullptr}},
      {{.text = "Hi", .finish_reason = v1::FINISH_REASON_LENGTH}, {"max_tokens", nullptr}},
      {{.text = "Hi", .stop = "END"}, {"stop_sequence", "END"}},
      {{.text = "~cget~a{}"}, {"tool_use", nullptr}},
      {{.text = "~cget~a{}~tdone"}, {"tool_use", nullptr}},
      {{.text = "~cget~a{", .finish_reason = v1::FINISH_REASON_LENGTH}, {"max_tokens", nullptr}},
      {{.text = "~cget~a{ ", .stop = "\""}, {"stop_sequence", "\""}},
      {{.text = "~cget~a{\"a\": "}, {"end_turn", nullptr}},
      {{.text = "~cget~a{}~cput~a{\"a"}, {"end_turn", nullptr}},
  };
  for (const auto& [answer, expected] : cases) {
    const Json message = WholeMessage(answer);
    EXPECT_EQ(message.at("stop_reason"), expected[0]) << answer.text;
    EXPECT_EQ(message.at("stop_sequence"), expected[1]) << answer.text;
  }
}

// Played answers have 9 tokens.
TEST(MessagesFormat, TellsThatTheContextEndedAnAnswerThatMightHaveBeenLonger) {
  const PlayedAnswer cut{.text = "Hi", .finish_reason = v1::FINISH_REASON_LENGTH};
  for (const auto& [max_tokens, reason] :
       {std::pair(9u, "max_tokens"), std::pair(10u, "model_context_window_exceeded"),
        std::pair(32000u, "model_context_window_exceeded")}) {
    MessagesFormat whole = FormatOf(/*stream=*/false, max_tokens);
    EXPECT_EQ(Json::parse(Written(whole, Whole(cut))).at("stop_reason"), reason) << max_tokens;
    MessagesFormat stream = FormatOf(/*stream=*/true, max_tokens);
    const std::vector<Json> events = EventsOf(Written(stream, {ChunkOf("Hi"), EndOf(cut)}));
    EXPECT_EQ(events.at(events.size() - 2).at("delta").at("stop_reason"), reason) << max_tokens;
  }
  for (const auto& [answer, reason] :
       {std::pair(PlayedAnswer{.text = "Hi"}, "end_turn"),
        std::pair(PlayedAnswer{.text = "Hi", .stop = "END"}, "stop_sequence"),
        std::pair(PlayedAnswer{.text = "~cget~a{}"}, "tool_use")}) {
    MessagesFormat whole = FormatOf(/*stream=*/false, 32000);
    EXPECT_EQ(Json::parse(Written(whole, Whole(answer))).at("stop_reason"), reason);
  }
}

TEST(MessagesFormat, WritesNothingBeforeTheFirstResponse) {
  MessagesFormat whole = FormatOf(/*stream=*/false);
  std::string out;
  whole.Begin(0, 7);
  whole.Add(0, ChunkOf("Hi"), out);
  EXPECT_THAT(out, IsEmpty());
}

// What a client makes of the events, which come in order: the message of the whole answer.
Json Accumulated(const std::vector<Json>& events) {
  EXPECT_EQ(events[0].at("type"), "message_start");
  EXPECT_EQ(events[1].at("type"), "ping");
  Json message = events[0].at("message");
  std::string arguments;
  bool open = false;
  for (size_t i = 2; i < events.size(); ++i) {
    const Json& event = events[i];
    const std::string type = event.at("type");
    EXPECT_EQ(type == "message_delta", i + 2 == events.size());
    EXPECT_EQ(type == "message_stop", i + 1 == events.size());
    if (type == "message_delta") {
      EXPECT_FALSE(open);
      message.update(event.at("delta"));
      message["usage"].update(event.at("usage"));
    }
    if (!event.contains("index")) continue;
    EXPECT_EQ(open, type != "content_block_start");
    open = type != "content_block_stop";
    if (type == "content_block_start") {
      EXPECT_EQ(event.at("index"), message["content"].size());
      message["content"].push_back(event.at("content_block"));
      arguments.clear();
      continue;
    }
    EXPECT_EQ(event.at("index"), message["content"].size() - 1);
    Json& block = message["content"].back();
    if (type == "content_block_delta") {
      const Json& delta = event.at("delta");
      const char* const field = block.contains("text") ? "text" : "thinking";
      if (delta.at("type") == "input_json_delta") {
        arguments += delta.at("partial_json").get<std::string>();
      } else {
        block[field] = block[field].get<std::string>() + delta.at(field).get<std::string>();
      }
    } else if (block.at("type") == "tool_use" && !arguments.empty()) {
      block["input"] = Json::parse(arguments);
    }
  }
  return message;
}

TEST(MessagesFormat, StreamsTheMessageThatIsTheWholeAnswerElsewhere) {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    const PlayedAnswer answer = RandomAnswer(random, /*with_tokens=*/false);
    EXPECT_EQ(Accumulated(MessageStream(Streamed(answer, random))), WholeMessage(answer))
        << answer.text;
  }
}

TEST(MessagesFormat, EndsABrokenStreamWithAnError) {
  MessagesFormat format = FormatOf(/*stream=*/true);
  std::string out;
  format.Add(0, ChunkOf("It i"), out);
  format.Fail(ApiErrorWithStatus(503, "no worker"), out);
  const std::vector<Json> events = EventsOf(out);
  EXPECT_THAT(TypesOf(events), ElementsAre("message_start", "ping", "content_block_start",
                                           "content_block_delta", "error"));
  EXPECT_EQ(events.back(), Json::parse(R"({"type": "error",
      "error": {"type": "overloaded_error", "message": "no worker"}, "request_id": "q"})"));
}

}  // namespace
}  // namespace baton
