#include "router/openai/chat_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "router/tools/client_parser.h"
#include "tests/router/openai/responses.h"
#include "tests/router/openai/test_tool_form.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

std::unique_ptr<AnswerFormat> ChatFormat(ChatAnswerOptions options) {
  options.answer.id = "chatcmpl-x";
  options.answer.model = "org/model";
  options.answer.created = 1700000000;
  std::vector<std::unique_ptr<AnswerParser>> parsers;
  for (uint32_t choice = 0; choice < options.answer.choices; ++choice) {
    parsers.push_back(NewTestParser(static_cast<int>(choice)));
  }
  return NewChatAnswer(std::move(options), std::move(parsers));
}

ChatAnswerOptions Streamed(uint32_t choices = 1) {
  return {.answer = {.stream = {.stream = true}, .choices = choices}};
}

std::string Answer(ChatAnswerOptions options, const std::vector<v1::GenerateResponse>& responses) {
  const auto format = ChatFormat(std::move(options));
  std::string out;
  for (const v1::GenerateResponse& response : responses) format->Add(0, response, out);
  format->Finish(out);
  return out;
}

// What a client joins of one choice's deltas.
Json JoinedMessage(const std::vector<Json>& events, uint32_t index) {
  Json message = Json::object();
  for (const Json& event : events) {
    for (const Json& choice : event["choices"]) {
      if (choice["index"] != index) continue;
      for (const auto& [name, value] : choice["delta"].items()) {
        if (name != "tool_calls") {
          message[name] = message.value(name, std::string()) + value.get<std::string>();
          continue;
        }
        Json& calls = message["tool_calls"];
        for (const Json& call : value) {
          const auto at = call["index"].get<size_t>();
          if (at == calls.size()) {
            calls.push_back(call);
            calls[at].erase("index");
          } else {
            EXPECT_FALSE(call.contains("id") || call.contains("type") ||
                         call["function"].contains("name"))
                << call;
            Json& arguments = calls.at(at)["function"]["arguments"];
            arguments =
                arguments.get<std::string>() + call["function"]["arguments"].get<std::string>();
          }
        }
      }
      if (!choice["finish_reason"].is_null()) message["finish_reason"] = choice["finish_reason"];
    }
  }
  return message;
}

TEST(ChatAnswer, AWholeAnswerHasTextUsageAndOneChoiceEach) {
  const Json body =
      Json::parse(Answer({.answer = {.choices = 2}}, {Complete(1, "two", v1::FINISH_REASON_LENGTH),
                                                      Last(Complete(0, "one"), 5, 4)}));
  EXPECT_EQ(body["id"], "chatcmpl-x");
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["created"], 1700000000);
  EXPECT_EQ(body["model"], "org/model");
  EXPECT_EQ(body["system_fingerprint"], "fp");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "one");
  EXPECT_EQ(body["choices"][0]["message"]["role"], "assistant");
  EXPECT_TRUE(body["choices"][0]["message"]["refusal"].is_null());
  EXPECT_TRUE(body["choices"][0]["logprobs"].is_null());
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["choices"][0]["seed"], 7);
  EXPECT_EQ(body["choices"][1]["index"], 1);
  EXPECT_EQ(body["choices"][1]["finish_reason"], "length");
  EXPECT_EQ(body["usage"]["prompt_tokens"], 5);
  EXPECT_EQ(body["usage"]["completion_tokens"], 4);
  EXPECT_EQ(body["usage"]["total_tokens"], 9);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 2);
  EXPECT_EQ(body["usage"]["completion_tokens_details"]["accepted_prediction_tokens"], 3);
  EXPECT_EQ(body["usage"]["completion_tokens_details"]["rejected_prediction_tokens"], 1);
}

TEST(ChatAnswer, ReasoningAndCallsStandApartFromTheText) {
  const Json body = Json::parse(
      Answer({}, {Complete(0, "<think>hm</think><call f>{\"a\":1}</call><call g>{}</call>")}));
  const Json& message = body["choices"][0]["message"];
  EXPECT_TRUE(message["content"].is_null());
  EXPECT_EQ(message["reasoning_content"], "hm");
  EXPECT_EQ(message["reasoning"], "hm");
  ASSERT_EQ(message["tool_calls"].size(), 2u);
  EXPECT_EQ(message["tool_calls"][0], Json::parse(R"({"id": "call_0_0", "type": "function",
                            "function": {"name": "f", "arguments": "{\"a\":1}"}})"));
  EXPECT_EQ(message["tool_calls"][1]["function"]["name"], "g");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "tool_calls");
}

TEST(ChatAnswer, ACallThatIsCutOffEndsByItsLength) {
  const Json body =
      Json::parse(Answer({}, {Complete(0, "<call f>{\"a\"", v1::FINISH_REASON_LENGTH)}));
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], "{\"a\"");
}

TEST(ChatAnswer, ACallThatAStopCutsIsNoCallToMake) {
  const auto reason = [](const std::string& text, bool stream, bool old_functions) {
    ChatAnswerOptions options{.answer = {.stream = {.stream = stream}},
                              .old_functions = old_functions};
    if (!stream) {
      return Json::parse(
          Answer(std::move(options), {Complete(0, text)}))["choices"][0]["finish_reason"];
    }
    const auto events =
        Events(Answer(std::move(options),
                      {Chunk(0, text.substr(0, 9)), Chunk(0, text.substr(9)), Complete(0, "")}));
    return events.back()["choices"][0]["finish_reason"];
  };
  for (const bool stream : {false, true}) {
    for (const bool old : {false, true}) {
      for (const char* cut : {"<call f>{ ", "<call f>{\"a\": \"b", "<call f>{\"a\": [1",
                              "<call f>{}</call><call g>{\"a"}) {
        EXPECT_EQ(reason(cut, stream, old), "stop") << cut;
      }
      const char* const calls = old ? "function_call" : "tool_calls";
      for (const char* whole : {"<call f>{}", "<call f>{\"a\": \"{\"}</call>",
                                "<call f>{}</call><call g>{}</call> and so"}) {
        EXPECT_EQ(reason(whole, stream, old), calls) << whole;
      }
    }
  }
}

TEST(ChatAnswer, FunctionsInTheOldFormAreAnsweredInIt) {
  const ChatAnswerOptions whole{.old_functions = true};
  const Json body = Json::parse(Answer(whole, {Complete(0, "<call f>{}</call>")}));
  EXPECT_EQ(body["choices"][0]["message"]["function_call"],
            Json::parse(R"({"name": "f", "arguments": "{}"})"));
  EXPECT_FALSE(body["choices"][0]["message"].contains("tool_calls"));
  EXPECT_EQ(body["choices"][0]["finish_reason"], "function_call");
  ChatAnswerOptions streamed = Streamed();
  streamed.old_functions = true;
  const auto events =
      Events(Answer(streamed, {Chunk(0, "<call f>{"), Chunk(0, "}</call>"), Complete(0, "")}));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0]["choices"][0]["delta"]["function_call"],
            Json::parse(R"({"name": "f", "arguments": "{"})"));
  EXPECT_EQ(events[1]["choices"][0]["delta"]["function_call"],
            Json::parse(R"({"arguments": "}"})"));
}

// The format for a client with a custom tool "patch" and a function "f" in the namespace "s".
std::unique_ptr<AnswerFormat> CustomFormat(bool stream) {
  auto tools = std::make_shared<ToolTable>();
  tools->Add({.space = "s", .name = "f"});
  tools->Add({.name = "patch", .is_custom = true});
  std::vector<std::unique_ptr<AnswerParser>> parsers;
  parsers.push_back(ForClient(NewTestParser(0), std::move(tools)));
  return NewChatAnswer({.answer = {.stream = {.stream = stream}}}, std::move(parsers));
}

TEST(ChatAnswer, ACallOfANamespaceHasTheInnerNameAndIt) {
  const Json expected = Json::parse(R"({"name": "f", "namespace": "s", "arguments": "{}"})");
  const auto whole = CustomFormat(/*stream=*/false);
  std::string out;
  whole->Add(0, Complete(0, "<call s__f>{}</call>"), out);
  whole->Finish(out);
  const Json message = Json::parse(out)["choices"][0]["message"];
  EXPECT_EQ(message["tool_calls"][0]["function"], expected);
  const auto streamed = CustomFormat(/*stream=*/true);
  out.clear();
  streamed->Add(0, Chunk(0, "<call s__f>{}</call>"), out);
  streamed->Add(0, Complete(0, ""), out);
  streamed->Finish(out);
  EXPECT_EQ(Events(out).at(0)["choices"][0]["delta"]["tool_calls"][0]["function"], expected);
}

TEST(ChatAnswer, ACustomToolsCallHasItsInput) {
  const auto whole = CustomFormat(/*stream=*/false);
  std::string out;
  whole->Add(0, Complete(0, R"(<call patch>{"input": "a\nb"}</call><call f>{}</call>)"), out);
  whole->Finish(out);
  EXPECT_EQ(Json::parse(out)["choices"][0]["message"]["tool_calls"], Json::parse(R"([
      {"id": "call_0_0", "type": "custom", "custom": {"name": "patch", "input": "a\nb"}},
      {"id": "call_0_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}])"));

  const auto streamed = CustomFormat(/*stream=*/true);
  out.clear();
  for (const char* text : {"<call patch>{\"input\": \"a\\n", "b\"}</call>"}) {
    streamed->Add(0, Chunk(0, text), out);
  }
  streamed->Add(0, Complete(0, ""), out);
  streamed->Finish(out);
  std::string input;
  const auto events = Events(out);
  const Json first = events.at(0)["choices"][0]["delta"]["tool_calls"][0];
  EXPECT_EQ(first["type"], "custom");
  EXPECT_EQ(first["custom"]["name"], "patch");
  for (const Json& event : events) {
    for (const Json& call : event["choices"][0]["delta"].value("tool_calls", Json::array())) {
      EXPECT_FALSE(call.contains("function"));
      input += call["custom"]["input"].get<std::string>();
    }
  }
  EXPECT_EQ(input, "a\nb");
}

TEST(ChatAnswer, TheRoleComesWithTheFirstTextAndNeverAgain) {
  const auto format = ChatFormat(Streamed());
  std::string out;
  format->Begin(0, 5);
  format->Add(0, Chunk(0, ""), out);
  format->Add(0, Chunk(0, "<thi"), out);
  EXPECT_EQ(out, "") << "nothing is certain yet";
  format->Add(0, Chunk(0, "s"), out);
  format->Add(0, Chunk(0, "!"), out);
  format->Add(0, Complete(0, ""), out);
  format->Finish(out);
  const auto events = Events(out);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0]["choices"][0]["delta"],
            Json::parse(R"({"role": "assistant", "content": "<this"})"));
  EXPECT_EQ(events[1]["choices"], Json::parse(R"([{"index": 0, "delta": {"content": "!"},
                                                   "logprobs": null, "finish_reason": null}])"));
  EXPECT_EQ(events[2]["choices"][0]["delta"], Json::object());
  EXPECT_EQ(events[2]["choices"][0]["finish_reason"], "stop");
  for (const Json& event : events) {
    EXPECT_EQ(event["object"], "chat.completion.chunk");
    EXPECT_EQ(event["id"], "chatcmpl-x");
    EXPECT_EQ(event["created"], 1700000000);
    EXPECT_FALSE(event.contains("usage"));
  }
}

TEST(ChatAnswer, AStreamWithoutTextHasItsRoleAtTheEnd) {
  const auto events = Events(Answer(Streamed(), {Complete(0, "")}));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["choices"][0]["delta"],
            Json::parse(R"({"role": "assistant", "content": ""})"));
}

TEST(ChatAnswer, UsageComesInALastEventWhereItWasAskedAndIsNullBefore) {
  ChatAnswerOptions options = Streamed();
  options.answer.stream.include_usage = true;
  const auto events = Events(Answer(options, {Chunk(0, "a"), Last(Complete(0, ""), 5, 1)}));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_TRUE(events[0].contains("usage") && events[0]["usage"].is_null());
  EXPECT_TRUE(events[1].contains("usage") && events[1]["usage"].is_null());
  EXPECT_EQ(events[2]["choices"], Json::array());
  EXPECT_EQ(events[2]["usage"]["total_tokens"], 6);
  EXPECT_FALSE(events[0].contains("system_fingerprint"));
  EXPECT_EQ(events[1]["system_fingerprint"], "fp");
  EXPECT_EQ(events[2]["system_fingerprint"], "fp");
}

TEST(ChatAnswer, ContinuousUsageCountsTheTokensThatHaveCome) {
  ChatAnswerOptions options = Streamed();
  options.answer.stream = {.stream = true, .include_usage = true, .continuous_usage = true};
  const auto format = ChatFormat(options);
  std::string out;
  format->Begin(0, 5);
  for (const char* text : {"a", "b"}) {
    v1::GenerateResponse chunk = Chunk(0, text);
    chunk.mutable_chunk()->add_token_ids(1);
    format->Add(0, chunk, out);
  }
  format->Add(0, Last(Complete(0, ""), 5, 3), out);
  format->Finish(out);
  const auto events = Events(out);
  EXPECT_EQ(events[0]["usage"], Json::parse(R"({"prompt_tokens": 5, "completion_tokens": 1,
                                                "total_tokens": 6})"));
  EXPECT_EQ(events[1]["usage"]["completion_tokens"], 2);
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 3);
  EXPECT_FALSE(events[0]["choices"][0].contains("token_ids")) << "they were not asked for";
}

TEST(ChatAnswer, TokensBeforeTheAnswerAreReasoningWhereThereIsAny) {
  const auto reasoning_tokens = [](const std::vector<const char*>& texts) {
    ChatAnswerOptions options = Streamed();
    options.answer.stream.include_usage = true;
    std::vector<v1::GenerateResponse> responses;
    for (const char* text : texts) {
      responses.push_back(Chunk(0, text));
      responses.back().mutable_chunk()->add_token_ids(1);
    }
    responses.push_back(Last(Complete(0, ""), 5, 9));
    return Events(Answer(options, responses))
        .back()["usage"]["completion_tokens_details"]["reasoning_tokens"];
  };
  EXPECT_EQ(reasoning_tokens({"<think>", "hm", "</think>", "yes", "!"}), 3);
  EXPECT_EQ(reasoning_tokens({"<th", "is"}), 0);
  const auto whole = [](const char* text) {
    return Json::parse(
        Answer({}, {Last(Complete(0, text), 5, 9)}))["usage"]["completion_tokens_details"];
  };
  EXPECT_EQ(whole("yes")["reasoning_tokens"], 0);
  EXPECT_FALSE(whole("<think>hm</think>yes").contains("reasoning_tokens")) << "nobody counted";
}

TEST(ChatAnswer, LogProbabilitiesComeWithTheTextOrTheNextThatIsCertain) {
  ChatAnswerOptions options = Streamed();
  options.answer.logprobs = true;
  const auto events =
      Events(Answer(options, {Chunk(0, "<", {Logprob("<", -0.1f, {{"<", -0.1f}, {"x", -2}})}),
                              Chunk(0, "b", {Logprob("b", -0.25f)}), Complete(0, "")}));
  ASSERT_EQ(events.size(), 2u);
  const Json& logprobs = events[0]["choices"][0]["logprobs"];
  EXPECT_TRUE(logprobs["refusal"].is_null());
  ASSERT_EQ(logprobs["content"].size(), 2u);
  EXPECT_EQ(logprobs["content"][0]["logprob"].dump(), "-0.1");
  EXPECT_EQ(logprobs["content"][0]["top_logprobs"][0]["logprob"].dump(), "-0.1");
  EXPECT_EQ(logprobs["content"][0]["bytes"], Json::parse("[60]"));
  EXPECT_EQ(logprobs["content"][1]["token"], "b");
  EXPECT_TRUE(events[1]["choices"][0]["logprobs"].is_null());
}

TEST(ChatAnswer, TimingsAndTokenIdsStandInTheChoiceOnDemand) {
  ChatAnswerOptions options;
  options.answer.return_timings = true;
  options.answer.return_token_ids = true;
  v1::GenerateResponse complete = Complete(0, "a");
  complete.mutable_complete()->add_token_ids(17);
  complete.mutable_complete()->set_matched_stop_str("END");
  const Json choice = Json::parse(Answer(options, {complete}))["choices"][0];
  EXPECT_EQ(choice["timings"]["total_ms"], 1.5);
  EXPECT_FALSE(choice["timings"].contains("decode_ms")) << "it was not measured";
  EXPECT_EQ(choice["token_ids"], Json::parse("[17]"));
  EXPECT_EQ(choice["stop_reason"], "END");
}

TEST(ChatAnswer, ABrokenStreamTellsItsErrorAndNoEnd) {
  const auto format = ChatFormat(Streamed());
  std::string out;
  format->Fail({.status = 503, .type = "unavailable_error", .message = "gone\n"}, out);
  EXPECT_EQ(out,
            "data: {\"error\":{\"message\":\"gone\\n\",\"type\":\"unavailable_error\","
            "\"param\":null,\"code\":null}}\n\n");
}

TEST(ChatAnswer, WhatIsNoUtf8BecomesValidJson) {
  EXPECT_TRUE(Json::accept(Answer({}, {Complete(0, "a\xFF\xC3")})));
}

TEST(ChatAnswer, EveryCuttingOfInterleavedChoicesJoinsToTheWholeAnswers) {
  const std::vector<std::string> texts = {
      "<think>so <call it</think>Hello <b> <thin air<call f>{\"x\": [1, 2]}</call>", "plain < text",
      "<call f>{}</call><call gg>{\"y\": \"<\"}</call>tail"};
  std::vector<v1::GenerateResponse> wholes;
  for (uint32_t i = 0; i < texts.size(); ++i) wholes.push_back(Complete(i, texts[i]));
  const auto choices = static_cast<uint32_t>(texts.size());
  const Json whole = Json::parse(Answer({.answer = {.choices = choices}}, wholes));
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::vector<std::string>> pieces;
    for (const std::string& text : texts) pieces.push_back(RandomPieces(text, random));
    std::vector<size_t> sent(texts.size());
    std::vector<v1::GenerateResponse> responses;
    for (uint32_t open = choices; open > 0;) {
      const uint32_t i = static_cast<uint32_t>(random() % choices);
      if (sent[i] > pieces[i].size()) continue;
      const bool ended = sent[i] == pieces[i].size();
      responses.push_back(ended ? Complete(i, "") : Chunk(i, pieces[i][sent[i]]));
      if (ended) --open;
      ++sent[i];
    }
    const auto events = Events(Answer(Streamed(choices), responses));
    for (uint32_t i = 0; i < choices; ++i) {
      Json message = whole["choices"][i]["message"];
      message.erase("refusal");
      if (message["content"].is_null()) message.erase("content");
      message["finish_reason"] = whole["choices"][i]["finish_reason"];
      EXPECT_EQ(std::map(JoinedMessage(events, i).get<std::map<std::string, Json>>()),
                std::map(message.get<std::map<std::string, Json>>()));
    }
  }
}

}  // namespace
}  // namespace baton
