#include "router/openai/completion_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/router/openai/responses.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

TEST(CompletionAnswer, ChoicesOfSeveralPromptsAreCountedPromptByPrompt) {
  const auto format = NewCompletionAnswer({.id = "cmpl-x", .model = "m", .choices = 2}, 2);
  std::string out;
  format->Add(1, Complete(0, "c"), out);
  format->Add(0, Complete(1, "b", v1::FINISH_REASON_LENGTH), out);
  format->Add(1, Last(Complete(1, "d"), 4, 10), out);
  format->Add(0, Last(Complete(0, "a"), 3, 20), out);
  EXPECT_EQ(out, "");
  format->Finish(out);
  const Json body = Json::parse(out);
  EXPECT_EQ(body["object"], "text_completion");
  std::string texts;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(body["choices"][i]["index"], i);
    texts += body["choices"][i]["text"].get<std::string>();
  }
  EXPECT_EQ(texts, "abcd");
  EXPECT_EQ(body["choices"][1]["finish_reason"], "length");
  EXPECT_TRUE(body["choices"][0]["logprobs"].is_null());
  EXPECT_EQ(body["usage"]["prompt_tokens"], 7);
  EXPECT_EQ(body["usage"]["completion_tokens"], 30);
  EXPECT_EQ(body["usage"]["total_tokens"], 37);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
}

TEST(CompletionAnswer, AnEventOfMoreTextHasTheseBytes) {
  const auto format = NewCompletionAnswer({.stream = {.stream = true}, .choices = 2}, 1);
  std::string out;
  format->Add(0, Chunk(1, "a\"\n\xff"), out);
  EXPECT_EQ(out,
            "data: {\"id\":\"\",\"object\":\"text_completion\",\"created\":0,\"model\":\"\","
            "\"choices\":[{\"index\":1,\"text\":\"a\\\"\\n\xef\xbf\xbd\",\"logprobs\":null,"
            "\"finish_reason\":null}]}\n\n");
}

TEST(CompletionAnswer, StreamsOfSeveralPromptsInterleaveAndEndOnce) {
  const auto format = NewCompletionAnswer({.stream = {.stream = true, .include_usage = true}}, 2);
  std::string out;
  format->Add(1, Chunk(0, "c"), out);
  format->Add(0, Chunk(0, "a"), out);
  format->Add(0, Last(Complete(0, ""), 3, 1), out);
  format->Add(1, Last(Complete(0, "", v1::FINISH_REASON_LENGTH), 4, 1), out);
  format->Finish(out);
  const auto events = Events(out);
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0]["choices"][0]["index"], 1);
  EXPECT_EQ(events[0]["choices"][0]["text"], "c");
  EXPECT_TRUE(events[0]["choices"][0]["finish_reason"].is_null());
  EXPECT_EQ(events[1]["choices"][0]["index"], 0);
  EXPECT_EQ(events[2]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events[3]["choices"][0]["finish_reason"], "length");
  EXPECT_FALSE(events[1].contains("system_fingerprint"));
  for (const int end : {2, 3, 4}) EXPECT_EQ(events[end]["system_fingerprint"], "fp");
  EXPECT_EQ(events[4]["choices"], Json::array());
  EXPECT_EQ(events[4]["usage"]["total_tokens"], 9);
}

TEST(CompletionAnswer, ContinuousUsageWaitsUntilAllPromptsAreKnown) {
  const StreamFields stream{.stream = true, .include_usage = true, .continuous_usage = true};
  const auto format = NewCompletionAnswer({.stream = stream}, 2);
  std::string out;
  format->Begin(0, 3);
  format->Add(0, Chunk(0, "a"), out);
  format->Begin(1, 4);
  format->Add(1, Chunk(0, "b"), out);
  format->Finish(out);
  const auto events = Events(out);
  EXPECT_TRUE(events[0]["usage"].is_null());
  EXPECT_EQ(events[1]["usage"]["prompt_tokens"], 7);
}

// As an evaluator reads it: the prompt's tokens with the answer's, in lists of one length.
TEST(CompletionAnswer, AnEchoHasThePromptsLogProbabilitiesBeforeTheAnswers) {
  v1::GenerateResponse complete =
      Complete(0, "Hé you", v1::FINISH_REASON_LENGTH, {Logprob(" you", -0.3f, {{" me", -0.2f}})});
  v1::TokenLogprob& first = *complete.mutable_complete()->add_prompt_logprobs();
  first.set_token("H");
  *complete.mutable_complete()->add_prompt_logprobs() = Logprob("é", -0.7f, {{"é", -0.7f}});
  const auto format = NewCompletionAnswer({.logprobs = true}, 1);
  std::string out;
  format->Add(0, Last(complete, 2, 1), out);
  format->Finish(out);
  const Json logprobs = Json::parse(out)["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json::parse(R"(["H", "é", " you"])"));
  EXPECT_EQ(logprobs["token_logprobs"].dump(), "[null,-0.7,-0.3]");
  EXPECT_EQ(logprobs["text_offset"], Json::parse("[0, 1, 2]"));
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  EXPECT_EQ(logprobs["top_logprobs"][1].dump(), R"({"é":-0.7})");
  EXPECT_EQ(logprobs["top_logprobs"][2].dump(), R"({" me":-0.2," you":-0.3})");
}

TEST(CompletionAnswer, EveryChoiceOfAStreamHasTheEchoedPromptOnceAndWithItsText) {
  const auto format =
      NewCompletionAnswer({.stream = {.stream = true}, .choices = 2, .logprobs = true}, 1);
  std::string out;
  for (const char* token : {"<s>", "p"}) {  // in chunks of their own, before any text
    v1::GenerateResponse chunk = Chunk(0, "");
    chunk.mutable_chunk()->add_prompt_logprobs()->set_token(token);
    format->Add(0, chunk, out);
  }
  EXPECT_EQ(out, "") << "no token has come";
  format->Add(0, Chunk(1, "p2", {Logprob("2", -1)}), out);
  format->Add(0, Chunk(0, "p1", {Logprob("1", -1)}), out);
  format->Add(0, Chunk(1, "3", {Logprob("3", -1)}), out);
  format->Add(0, Complete(0, ""), out);
  format->Finish(out);
  const auto events = Events(out);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0]["choices"][0]["logprobs"]["tokens"], Json::parse(R"(["<s>", "p", "2"])"));
  EXPECT_EQ(events[0]["choices"][0]["logprobs"]["text_offset"], Json::parse("[0, 0, 1]"));
  EXPECT_EQ(events[1]["choices"][0]["logprobs"]["tokens"], Json::parse(R"(["<s>", "p", "1"])"));
  EXPECT_EQ(events[2]["choices"][0]["logprobs"]["tokens"], Json::parse(R"(["3"])"));
  EXPECT_EQ(events[2]["choices"][0]["logprobs"]["text_offset"], Json::parse("[2]"));
  EXPECT_TRUE(events[3]["choices"][0]["logprobs"].is_null());
}

TEST(CompletionAnswer, AChoiceThatEndsFirstHasTheEchoedPromptToo) {
  const auto format = NewCompletionAnswer({.choices = 2, .logprobs = true}, 1);
  v1::GenerateResponse first = Complete(0, "p", v1::FINISH_REASON_LENGTH);
  first.mutable_complete()->add_prompt_logprobs()->set_token("p");
  std::string out;
  format->Add(0, Complete(1, "p", v1::FINISH_REASON_LENGTH), out);
  format->Add(0, first, out);
  format->Finish(out);
  const Json answer = Json::parse(out);
  ASSERT_EQ(answer["choices"].size(), 2u);
  for (const Json& choice : answer["choices"]) {
    EXPECT_EQ(choice["logprobs"]["tokens"], Json::parse(R"(["p"])"));
  }
}

TEST(CompletionAnswer, EveryCuttingJoinsToTheWholeText) {
  const std::string text = "a text of several words, \"quoted\" and\nbroken";
  std::mt19937 random(2);
  for (int round = 0; round < 30; ++round) {
    const auto format = NewCompletionAnswer({.stream = {.stream = true}, .logprobs = true}, 1);
    std::string out;
    for (const std::string& piece : RandomPieces(text, random)) {
      format->Add(0, Chunk(0, piece, {Logprob(piece, -1)}), out);
    }
    format->Add(0, Complete(0, ""), out);
    format->Finish(out);
    std::string joined;
    for (const Json& event : Events(out)) {
      const Json& choice = event["choices"][0];
      if (choice["finish_reason"].is_null()) {
        EXPECT_EQ(choice["logprobs"]["text_offset"][0], joined.size());
      }
      joined += choice["text"].get<std::string>();
    }
    EXPECT_EQ(joined, text);
  }
}

TEST(CompletionAnswer, ABrokenStreamTellsItsErrorAndNoEnd) {
  const auto format = NewCompletionAnswer({.stream = {.stream = true}}, 1);
  std::string out;
  format->Fail({.type = "server_error", .message = "broken"}, out);
  EXPECT_THAT(out, ::testing::StartsWith("data: {\"error\":"));
  EXPECT_THAT(out, ::testing::Not(::testing::HasSubstr("[DONE]")));
}

}  // namespace
}  // namespace baton
