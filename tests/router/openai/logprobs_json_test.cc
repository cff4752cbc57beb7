#include "router/openai/logprobs_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "tests/router/openai/responses.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

TEST(JsonFloat, HasTheFewestDigitsThatReadAsTheFloat) {
  EXPECT_EQ(Json(JsonFloat(-0.1f)).dump(), "-0.1");
  EXPECT_EQ(Json(JsonFloat(-16.25f)).dump(), "-16.25");
  EXPECT_EQ(Json(JsonFloat(-1e-7f)).dump(), "-1e-07");
  EXPECT_EQ(JsonFloat(-std::numeric_limits<float>::infinity()), -9999);
  EXPECT_EQ(JsonFloat(std::numeric_limits<float>::quiet_NaN()), -9999);
  std::mt19937 random(3);
  for (int i = 0; i < 1000; ++i) {
    const float value = -std::ldexp(static_cast<float>(random() % 16777216), -20);
    const std::string digits = Json(JsonFloat(value)).dump();
    EXPECT_EQ(std::strtof(digits.c_str(), nullptr), value);
    EXPECT_LE(digits.size(), 14u);
  }
}

TEST(TokenText, ShowsThePiecesOfACharacterAsBytes) {
  EXPECT_EQ(TokenText("é"), "é");
  EXPECT_EQ(TokenText("\xC3"), "bytes:\\xc3");
  EXPECT_EQ(TokenText(" \xE2\x80"), "bytes:\\x20\\xe2\\x80");
  EXPECT_EQ(TokenText(""), "");
}

TEST(ChatLogprobs, HaveTheBytesOfTokensThatAreNoText) {
  TokenLogprobs tokens;
  *tokens.Add() = Logprob("\xC3", -1, {{"\xC3", -1}, {"x", -2}});
  Json content = Json::array();
  AppendChatLogprobs(tokens, content);
  EXPECT_EQ(content[0]["token"], "bytes:\\xc3");
  EXPECT_EQ(content[0]["bytes"], Json::parse("[195]"));
  EXPECT_EQ(content[0]["top_logprobs"].size(), 2u);
  EXPECT_EQ(content[0]["top_logprobs"][0]["bytes"], Json::parse("[195]"));
}

TEST(CompletionLogprobs, TheGreedyTokenIsExactlyTheGreatest) {
  std::mt19937 random(4);
  for (int i = 0; i < 200; ++i) {
    const float value = -static_cast<float>(random() % 1000) / 977;
    TokenLogprobs tokens;
    *tokens.Add() = Logprob("a", value, {{"a", value}, {"b", value - 0.5f}});
    TextOffsets offsets;
    CompletionLogprobs logprobs;
    logprobs.Append(tokens, offsets);
    const Json json = Json::parse(logprobs.ToJson().dump());
    EXPECT_EQ(json["token_logprobs"][0], json["top_logprobs"][0]["a"]);
    EXPECT_GT(json["token_logprobs"][0], json["top_logprobs"][0]["b"]);
  }
}

TEST(CompletionLogprobs, OfTokensWithOneTextTheLikeliestCounts) {
  TokenLogprobs tokens;
  *tokens.Add() = Logprob("a", -3, {{"a", -1}});
  TextOffsets offsets;
  CompletionLogprobs logprobs;
  logprobs.Append(tokens, offsets);
  EXPECT_EQ(logprobs.ToJson()["top_logprobs"][0].dump(), R"({"a":-1.0})");
}

TEST(TextOffsets, CountCharactersAndNotBytes) {
  TextOffsets offsets;
  offsets.AddText("a€b");
  EXPECT_EQ(offsets.Next("a"), 0u);
  EXPECT_EQ(offsets.Next("\xE2\x82"), 1u);
  EXPECT_EQ(offsets.Next("\xAC"), 1u);
  EXPECT_EQ(offsets.Next("b"), 2u);
  EXPECT_EQ(offsets.Next(" later"), 3u) << "the text may be behind";
  EXPECT_EQ(offsets.Next("x"), 9u);
}

TEST(TextOffsets, TokensThatAreNotInTheTextTakeNoRoom) {
  TextOffsets offsets;
  offsets.AddText("Hi you");
  EXPECT_EQ(offsets.Next("<s>"), 0u);
  EXPECT_EQ(offsets.Next(" Hi"), 0u);
  EXPECT_EQ(offsets.Next("<|end|>"), 2u);
  EXPECT_EQ(offsets.Next(" you"), 2u);
}

TEST(TextOffsets, BytesThatAreNoTextAreOneCharacter) {
  TextOffsets offsets;
  offsets.AddText("\xEF\xBF\xBD!");
  EXPECT_EQ(offsets.Next("\xFF"), 0u);
  EXPECT_EQ(offsets.Next("!"), 1u);
}

}  // namespace
}  // namespace baton
