#include "client/answer_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/rpc/status.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kTimeout = absl::Seconds(5);

Answer MakeAnswer() {
  Answer answer;
  v1::GenerateComplete& complete = answer.choices.emplace_back();
  complete.set_text("Grüße \"x\"\n");
  complete.set_finish_reason(v1::FINISH_REASON_LENGTH);
  complete.set_seed(123);
  complete.add_token_ids(5);
  complete.add_token_ids(6);
  complete.mutable_usage()->set_prompt_tokens(100);
  complete.mutable_usage()->set_cached_tokens(20);
  complete.mutable_usage()->set_completion_tokens(11);
  v1::RequestTimings& timings = *complete.mutable_timings();
  timings.mutable_prefill()->set_nanos(400'000'000);
  timings.mutable_decode()->set_seconds(2);
  timings.set_kv_transfer_messages(3);
  timings.set_kv_transfer_bytes(2'500'000);
  timings.set_prefill_worker("p:1");
  timings.set_decode_worker("d:2");
  timings.set_attempts(1);
  return answer;
}

// An answer that the deadline ended: of its two choices one is complete and one has begun.
Answer MakeBroken() {
  Answer answer = MakeAnswer();
  v1::GenerateComplete& begun = answer.choices.emplace_back();
  begun.set_text("so far");
  begun.add_token_ids(7);
  answer.status = absl::DeadlineExceededError("Deadline Exceeded");
  return answer;
}

TEST(FormatJson, HoldsTextIdsUsageAndTimingsOnOneLine) {
  const std::string text = FormatJson(MakeAnswer(), kTimeout);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["text"], "Grüße \"x\"\n");
  EXPECT_EQ(json["token_ids"], (std::vector<int>{5, 6}));
  EXPECT_EQ(json["finish_reason"], "length");
  EXPECT_EQ(json["usage"]["cached_tokens"], 20);
  EXPECT_EQ(json["seed"], 123);
  EXPECT_DOUBLE_EQ(json["timings"]["decode_ms"], 2000);
  EXPECT_FALSE(json.contains("error"));
  EXPECT_FALSE(json.contains("logprobs"));
}

TEST(FormatJson, HasSeveralChoicesAsAList) {
  Answer answer = MakeAnswer();
  answer.choices.push_back(answer.choices[0]);
  answer.choices[1].set_text("other");
  const auto json = nlohmann::json::parse(FormatJson(answer, kTimeout));
  ASSERT_EQ(json["choices"].size(), 2u);
  EXPECT_EQ(json["choices"][1]["text"], "other");
  EXPECT_EQ(json["choices"][1]["finish_reason"], "length");
  EXPECT_EQ(json["usage"]["prompt_tokens"], 100);
  EXPECT_FALSE(json.contains("text"));
}

TEST(FormatJson, HasTheLogProbabilitiesOfEachToken) {
  Answer answer = MakeAnswer();
  v1::TokenLogprob& logprob = *answer.choices[0].add_logprobs();
  logprob.set_token_id(5);
  logprob.set_token("a");
  logprob.set_logprob(-0.5);
  v1::TopLogprob& top = *logprob.add_top_logprobs();
  top.set_token_id(9);
  top.set_logprob(-0.25);
  answer.choices[0].add_prompt_logprobs()->set_token("p");
  *answer.choices[0].add_prompt_logprobs() = logprob;
  const auto json = nlohmann::json::parse(FormatJson(answer, kTimeout));
  ASSERT_EQ(json["logprobs"].size(), 1u);
  EXPECT_EQ(json["logprobs"][0]["token"], "a");
  EXPECT_EQ(json["logprobs"][0]["logprob"], -0.5);
  EXPECT_EQ(json["logprobs"][0]["top_logprobs"][0]["token_id"], 9);
  ASSERT_EQ(json["prompt_logprobs"].size(), 2u);
  EXPECT_TRUE(json["prompt_logprobs"][0]["logprob"].is_null());
  EXPECT_EQ(json["prompt_logprobs"][1], json["logprobs"][0]);
}

TEST(FormatJson, OfAFailureHasTheTextSoFarAndTheError) {
  const auto json = nlohmann::json::parse(FormatJson(MakeBroken(), kTimeout));
  EXPECT_EQ(json["choices"][1]["text"], "so far");
  EXPECT_EQ(json["choices"][1]["finish_reason"], nullptr);
  EXPECT_EQ(json["error"]["code"], "DEADLINE_EXCEEDED");
  EXPECT_EQ(json["error"]["message"], "the deadline of 5s (--timeout) passed after 3 tokens");
}

TEST(FormatJson, OfWhatNeverBeganHasNoUsage) {
  Answer answer;
  answer.choices.resize(1);
  answer.status = absl::UnavailableError("failed to connect");
  const auto json = nlohmann::json::parse(FormatJson(answer, kTimeout));
  EXPECT_EQ(json["text"], "");
  EXPECT_FALSE(json.contains("usage"));
  EXPECT_EQ(json["error"]["code"], "UNAVAILABLE");
}

TEST(DescribeFailure, SaysWhatTheDeadlineWasAndHowFarTheAnswerCame) {
  Answer answer;
  answer.choices.resize(1);
  answer.status = absl::DeadlineExceededError("Deadline Exceeded");
  EXPECT_EQ(DescribeFailure(answer, kTimeout),
            "the deadline of 5s (--timeout) passed before the first token");
  answer.choices[0].add_token_ids(1);
  EXPECT_EQ(DescribeFailure(answer, kTimeout),
            "the deadline of 5s (--timeout) passed after 1 token");
}

TEST(DescribeFailure, NamesNoDeadlineThatItWasNot) {
  Answer answer = MakeBroken();
  answer.status = WithErrorInfo(absl::DeadlineExceededError("no token came for 1h"),
                                {.reason = "NO_PROGRESS", .stage = kStageDecode});
  EXPECT_THAT(DescribeFailure(answer, kTimeout), HasSubstr("no token came for 1h"));
}

TEST(DescribeFailure, OfAServerThatIsNotThereSaysWhatStartsOne) {
  Answer answer;
  answer.choices.resize(1);
  answer.status = absl::UnavailableError("failed to connect");
  EXPECT_THAT(DescribeFailure(answer, kTimeout), HasSubstr("`baton serve --model FILE`"));
}

TEST(FormatStats, SaysHowTheAnswerWasDrawnAndWithWhichSeed) {
  v1::GenerateRequest request;
  request.mutable_sampling_params()->set_max_tokens(512);
  EXPECT_THAT(FormatStats(MakeAnswer(), request),
              HasSubstr("max-tokens 512, seed 123; the rest by the server's defaults\n"));
  request.mutable_sampling_params()->set_temperature(0.7F);
  request.mutable_sampling_params()->set_top_p(0.95F);
  EXPECT_THAT(FormatStats(MakeAnswer(), request),
              HasSubstr("temperature 0.7, top-p 0.95, max-tokens 512, seed 123\n"));
}

TEST(FormatStats, CountsOnlyComputedPromptTokensAndOnlyDecodedOutput) {
  const std::string stats = FormatStats(MakeAnswer(), {});
  EXPECT_THAT(stats, HasSubstr("80 tokens     200.0 tokens/s  on p:1"));
  EXPECT_THAT(stats, HasSubstr("10 tokens       5.0 tokens/s  on d:2"));
  EXPECT_THAT(stats, HasSubstr("2.50 MB in 3 messages"));
}

TEST(FormatStats, AWorkersNameCannotForgeALine) {
  Answer answer = MakeAnswer();
  answer.choices[0].mutable_timings()->set_decode_worker("d\x1b[2J\ntotal 0 ms");
  EXPECT_THAT(FormatStats(answer, {}), HasSubstr("  on d\\u001b[2J\\u000atotal 0 ms\n"));
}

TEST(FormatStats, SaysWhatCameOfGuessesWhereThereWereAny) {
  Answer answer = MakeAnswer();
  EXPECT_THAT(FormatStats(answer, {}), Not(HasSubstr("speculation")));
  answer.choices[0].mutable_usage()->set_accepted_prediction_tokens(7);
  answer.choices[0].mutable_usage()->set_rejected_prediction_tokens(3);
  EXPECT_THAT(FormatStats(answer, {}),
              HasSubstr("speculation    7 of 10 guessed tokens came true"));
  const auto json = nlohmann::json::parse(FormatJson(answer, kTimeout));
  EXPECT_EQ(json["usage"]["accepted_prediction_tokens"], 7);
  EXPECT_EQ(json["usage"]["rejected_prediction_tokens"], 3);
}

TEST(FormatStats, SaysWhatMemoryTheKvTookWhereItsLayoutIsKnown) {
  Answer answer = MakeAnswer();
  answer.choices[0].mutable_usage()->set_total_tokens(33);  // two blocks
  const KvLayout layout{.layers = 30, .kv_heads = 3, .head_dim = 64, .block_size = 32};
  EXPECT_THAT(FormatStats(answer, {}, layout),
              HasSubstr("KV memory      33 tokens: 1.5 MB; int8 0.8 MB, int4 0.4 MB\n"));
  EXPECT_THAT(FormatStats(answer, {}), Not(HasSubstr("KV memory")));
}

TEST(FormatStats, LeavesTheTransferOutWhereThereWasNone) {
  Answer answer = MakeAnswer();
  answer.choices[0].mutable_timings()->set_kv_transfer_messages(0);
  answer.choices[0].mutable_timings()->set_local_prefill(true);
  const std::string stats = FormatStats(answer, {});
  EXPECT_THAT(stats, Not(HasSubstr("KV transfer")));
  EXPECT_THAT(stats, Not(HasSubstr("on p:1")));
}

}  // namespace
}  // namespace baton
