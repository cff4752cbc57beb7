#include "router/openai/answer_json.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

AnswerOptions OptionsOfAnswer(const StreamFields& stream) {
  return {.id = "cmpl-1", .model = "m", .created = 5, .stream = stream};
}

v1::Usage UsageOf(uint32_t prompt, uint32_t completion, uint32_t cached) {
  v1::Usage usage;
  usage.set_prompt_tokens(prompt);
  usage.set_completion_tokens(completion);
  usage.set_cached_tokens(cached);
  return usage;
}

// The JSON of the first event.
Json EventOf(const std::string& events) {
  const size_t begin = std::string("data: ").size();
  return Json::parse(events.substr(begin, events.find("\n\n") - begin));
}

TEST(AnswerJson, AFloatIsTheShortestNumberThatReadsAsIt) {
  EXPECT_EQ(Json(JsonFloat(-0.1F)).dump(), "-0.1");
  EXPECT_EQ(static_cast<float>(JsonFloat(1.0F / 3)), 1.0F / 3);
  EXPECT_EQ(JsonFloat(-std::numeric_limits<float>::infinity()), -9999);
  EXPECT_EQ(JsonFloat(std::numeric_limits<float>::quiet_NaN()), -9999);
}

TEST(AnswerJson, ATokenThatIsNoTextIsItsBytes) {
  EXPECT_EQ(TokenText("é"), "é");
  EXPECT_EQ(TokenText("\xe2\x80"), "bytes:\\xe2\\x80");
}

TEST(AnswerJson, AReasonToStopIsAStringOrAToken) {
  v1::GenerateComplete complete;
  EXPECT_TRUE(StopReason(complete).is_null());
  complete.set_matched_token_id(7);
  EXPECT_EQ(StopReason(complete), 7);
  complete.set_matched_stop_str("END");
  EXPECT_EQ(StopReason(complete), "END");
}

TEST(AnswerJson, TheUsageIsTheSumOverThePrompts) {
  UsageSum sum(2);
  sum.Begin(10);
  sum.Count(3);
  EXPECT_TRUE(sum.RunningJson().is_null()) << "nobody knows how long the other prompt is";
  sum.Begin(20);
  EXPECT_EQ(sum.RunningJson().dump(),
            R"({"prompt_tokens":30,"completion_tokens":3,"total_tokens":33})");
  sum.Add(UsageOf(10, 4, 8));
  sum.Add(UsageOf(20, 5, 16));
  const Json usage = sum.ToJson();
  EXPECT_EQ(usage["prompt_tokens"], 30);
  EXPECT_EQ(usage["completion_tokens"], 9);
  EXPECT_EQ(usage["total_tokens"], 39);
  EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], 24);
  EXPECT_FALSE(usage["completion_tokens_details"].contains("reasoning_tokens"));
  sum.AddReasoning(0);
  EXPECT_EQ(sum.ToJson()["completion_tokens_details"]["reasoning_tokens"], 0);
}

TEST(AnswerJson, TimesAreInMillisecondsAndAbsentWhereTheyWereNotMeasured) {
  v1::RequestTimings timings;
  timings.mutable_decode()->set_seconds(2);
  timings.mutable_decode()->set_nanos(500'000);
  const Json json = TimingsJson(timings);
  EXPECT_EQ(json["decode_ms"], 2000.5);
  EXPECT_FALSE(json.contains("prefill_ms"));
}

TEST(EventWriter, ATextIsTheSameEventAsTheChoiceWithIt) {
  const UsageSum usage(1);
  for (const StreamFields& stream :
       {StreamFields{.stream = true}, StreamFields{.stream = true, .include_usage = true},
        StreamFields{.stream = true, .include_usage = true, .continuous_usage = true}}) {
    const EventWriter writer(OptionsOfAnswer(stream), "text_completion");
    std::string fast, slow;
    writer.TextChoice(1, R"("text":)", "a\"\n", "", usage, fast);
    writer.Choice(
        {{"index", 1}, {"text", "a\"\n"}, {"logprobs", nullptr}, {"finish_reason", nullptr}}, usage,
        "", slow);
    EXPECT_EQ(fast, slow);
  }
}

TEST(EventWriter, TellsTheUsageWhereItWasAsked) {
  UsageSum usage(1);
  usage.Begin(4);
  usage.Count(2);
  usage.Add(UsageOf(4, 2, 0));
  const auto events = [&](const StreamFields& stream) {
    const EventWriter writer(OptionsOfAnswer(stream), "text_completion");
    std::pair<std::string, std::string> written;
    writer.Choice({{"index", 0}}, usage, "", written.first);
    writer.End(usage, "", written.second);
    return written;
  };
  const auto silent = events({.stream = true});
  EXPECT_FALSE(EventOf(silent.first).contains("usage"));
  EXPECT_EQ(silent.second, "data: [DONE]\n\n");
  const auto last = events({.stream = true, .include_usage = true});
  EXPECT_TRUE(EventOf(last.first).at("usage").is_null());
  EXPECT_EQ(EventOf(last.second)["usage"]["total_tokens"], 6);
  EXPECT_TRUE(EventOf(last.second)["choices"].empty());
  const auto each = events({.stream = true, .include_usage = true, .continuous_usage = true});
  EXPECT_EQ(EventOf(each.first)["usage"]["completion_tokens"], 2);
}

TEST(EventWriter, TheEndsOfChoicesAndTheUsageHaveAFingerprint) {
  const EventWriter writer(OptionsOfAnswer({.stream = true, .include_usage = true}), "o");
  std::string end, last, none;
  writer.Choice({{"index", 0}}, UsageSum(1), "a\"b", end);
  EXPECT_EQ(EventOf(end)["system_fingerprint"], "a\"b");
  writer.End(UsageSum(1), "f", last);
  EXPECT_EQ(EventOf(last)["system_fingerprint"], "f");
  writer.Choice({{"index", 0}}, UsageSum(1), "", none);
  EXPECT_FALSE(EventOf(none).contains("system_fingerprint"));
}

TEST(AnswerJson, AnAnswerOfSeveralModelsNamesEachOnce) {
  std::string all;
  for (const char* fingerprint : {"", "a", "b", "a", ""}) AddFingerprint(fingerprint, all);
  EXPECT_EQ(all, "a, b");
}

TEST(AnswerJson, AWholeAnswerHasAFingerprintWhereThereIsOne) {
  const auto whole = [](const std::string& fingerprint) {
    return Json::parse(WholeAnswer(OptionsOfAnswer({}), "text_completion", Json::array({1, 2}),
                                   UsageSum(1), fingerprint));
  };
  EXPECT_EQ(whole("f")["system_fingerprint"], "f");
  EXPECT_FALSE(whole("").contains("system_fingerprint"));
  EXPECT_EQ(whole("")["choices"].dump(), "[1,2]");
  EXPECT_EQ(whole("")["id"], "cmpl-1");
}

}  // namespace
}  // namespace baton
