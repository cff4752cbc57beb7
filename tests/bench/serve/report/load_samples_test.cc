#include "bench/serve/report/load_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr LoadWindow kWindow{.from_ns = 100, .until_ns = 1000};

LoadRecord Record(int64_t intended_ns, std::vector<TokenMessage> messages) {
  LoadRecord record{.intended_ns = intended_ns, .sent_ns = intended_ns + 3};
  record.end_ns = messages.empty() ? intended_ns + 50 : messages.back().at_ns + 2;
  for (const TokenMessage& message : messages) record.asked_output_tokens += message.tokens;
  record.messages = std::move(messages);
  record.input_tokens = 7;
  record.outcome = RequestOutcome::kCompleted;
  return record;
}

LoadSamples Taken(const LoadRecord& record, const std::string& objective = "") {
  const auto parsed = ParseLoadObjective(objective);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  LoadSamples samples;
  samples.Add(record, kWindow, *parsed);
  return samples;
}

std::vector<int64_t> Values(const SampleSeries& series) {
  std::vector<int64_t> values;
  for (const TimedSample& sample : series) values.push_back(sample.value_ns);
  return values;
}

TEST(LoadSamples, TimesCountFromWhenTheRequestWasDueAndFromWhenItWasSent) {
  const LoadSamples samples = Taken(Record(200, {{230, 1}, {240, 1}, {260, 1}}));
  EXPECT_THAT(Values(samples.ttft), ElementsAre(30));
  EXPECT_THAT(Values(samples.ttft_from_sent), ElementsAre(27));
  EXPECT_THAT(Values(samples.itl), ElementsAre(10, 20));
  EXPECT_THAT(Values(samples.tpot), ElementsAre(15));
  EXPECT_THAT(Values(samples.e2e), ElementsAre(62));
  EXPECT_THAT(Values(samples.e2e_from_sent), ElementsAre(59));
  EXPECT_THAT(Values(samples.send_lag), ElementsAre(3));
  EXPECT_EQ(samples.tokens, 3u);
  EXPECT_EQ(samples.input_tokens, 7u);
  EXPECT_EQ(samples.good, 1u) << "there is no objective";
}

TEST(LoadSamples, SeveralTokensOfAMessageAreOneGapAndSeveralTokens) {
  const LoadSamples samples = Taken(Record(200, {{230, 1}, {250, 4}, {270, 2}}));
  EXPECT_THAT(Values(samples.itl), ElementsAre(20, 20));
  EXPECT_THAT(Values(samples.tpot), ElementsAre(7)) << "40 over 6 tokens, rounded";
  EXPECT_EQ(samples.tokens, 7u);
  EXPECT_EQ(samples.messages, 3u);
}

TEST(LoadSamples, ARequestCountsWhenItWasDueInTheWindowAndAMessageWhenItCameInIt) {
  const LoadSamples before = Taken(Record(99, {{110, 1}, {120, 1}}));
  EXPECT_EQ(before.offered, 0u);
  EXPECT_THAT(before.ttft, IsEmpty());
  EXPECT_THAT(Values(before.itl), ElementsAre(10));
  EXPECT_EQ(before.tokens, 2u);
  const LoadSamples after = Taken(Record(999, {{1001, 1}, {1010, 1}}));
  EXPECT_EQ(after.completed, 1u);
  EXPECT_THAT(Values(after.ttft), ElementsAre(2));
  EXPECT_THAT(after.itl, IsEmpty());
  EXPECT_EQ(after.tokens, 0u);
  EXPECT_EQ(Taken(Record(1000, {{1001, 1}})).offered, 0u);
}

TEST(LoadSamples, OnlyARequestThatKeepsAllLimitsIsGood) {
  const LoadRecord record = Record(200, {{230, 1}, {231, 1}, {232, 1}, {233, 1}, {333, 1}});
  EXPECT_EQ(Taken(record, "ttft=30ns,itl=100ns,tpot=26ns,e2e=135ns").good, 1u);
  EXPECT_EQ(Taken(record, "ttft=29ns").good, 0u);
  EXPECT_EQ(Taken(record, "itl=99ns").good, 0u);
  EXPECT_EQ(Taken(record, "itl_p75=1ns").good, 1u) << "three of its four gaps";
  EXPECT_EQ(Taken(record, "itl_p76=1ns").good, 0u);
  EXPECT_EQ(Taken(record, "tpot=25ns").good, 0u) << "103 over 4, rounded to 26";
  EXPECT_EQ(Taken(record, "e2e=134ns").good, 0u);
  EXPECT_EQ(Taken(record, "ttft=30ns,e2e=134ns").good, 0u);
}

TEST(LoadSamples, EveryOfferedRequestIsInOneOutcomeAndEveryFailureInAKind) {
  LoadSamples samples;
  LoadRecord record = Record(200, {});
  record.outcome = RequestOutcome::kRefused;
  record.kind = "RESOURCE_EXHAUSTED";
  samples.Add(record, kWindow, {});
  record.outcome = RequestOutcome::kCut;
  samples.Add(record, kWindow, {});
  record.outcome = RequestOutcome::kFailed;
  record.kind = "UNAVAILABLE";
  for (int i = 0; i < 20; ++i) {
    record.error = "worker " + std::to_string(i);
    samples.Add(record, kWindow, {});
  }
  EXPECT_EQ(samples.offered, 22u);
  EXPECT_EQ(samples.refused + samples.cut + samples.failed + samples.completed, 22u);
  EXPECT_THAT(samples.failures, SizeIs(9));
  EXPECT_EQ(samples.failures[kOtherFailures], 12u);
  EXPECT_EQ(samples.kinds["UNAVAILABLE"], 20u);
  EXPECT_EQ(samples.kinds["RESOURCE_EXHAUSTED"], 1u);
  EXPECT_THAT(Values(samples.refusal), ElementsAre(50));
}

TEST(LoadObjective, NamesWhatItLimits) {
  const auto objective = ParseLoadObjective("ttft=500ms,itl_p95=0.1s");
  ASSERT_TRUE(objective.ok()) << objective.status();
  ASSERT_THAT(*objective, SizeIs(2));
  EXPECT_EQ((*objective)[0].most_ns, 500'000'000);
  EXPECT_EQ((*objective)[1].percent, 95);
  EXPECT_TRUE(ParseLoadObjective("").ok());
  for (const char* name : {"speed", "itl_p0", "itl_p100", "itl_pp", "ttft_p50"}) {
    EXPECT_THAT(ParseLoadObjective(std::string(name) + "=1s").status().ToString(),
                HasSubstr("'" + std::string(name) + "'"));
  }
  EXPECT_THAT(ParseLoadObjective("ttft=fast").status().ToString(), HasSubstr("ttft=fast"));
}

}  // namespace
}  // namespace baton
