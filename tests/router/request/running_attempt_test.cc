#include "router/request/running_attempt.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "common/rpc/status.h"
#include "tests/router/request/asked_actions.h"
#include "tests/router/request/machine_harness.h"

namespace baton {
namespace {

using internal::v1::DecodeResponse;
using internal::v1::PrefillResponse;

// The first attempt at a request for three tokens.
class RunningAttemptTest : public testing::Test {
 protected:
  void Begin(RequestSpec spec = MachineHarness::Spec(3)) {
    request_.emplace(std::move(spec), LetterTable(), RequestMachineOptions());
    running_.emplace(*request_, Attempt{.number = 1,
                                        .choices = {{.choice = 0}},
                                        .accept_by = absl::UnixEpoch() + absl::Seconds(30)});
  }
  void Open(bool prefill = true, bool decode = true) {
    running_->Open(MachineHarness::Chosen(prefill, decode));
  }
  void DecodeAccepts() {
    DecodeResponse message;
    message.mutable_accepted();
    running_->Take(message);
  }
  void DecodeCommits() {
    DecodeResponse message;
    message.mutable_committed()->set_exact(true);
    running_->Take(message);
  }
  void DecodeSends(const internal::v1::OutputToken& token) {
    DecodeResponse message;
    *message.mutable_tokens()->add_tokens() = token;
    running_->Take(message);
  }
  std::optional<Breakage> PrefillSends(const internal::v1::OutputToken& token) {
    PrefillResponse message;
    *message.mutable_first_token() = token;
    return running_->Take(message);
  }

  std::optional<RequestState> request_;
  std::optional<RunningAttempt> running_;
};

TEST_F(RunningAttemptTest, OpensPrefillOnceItsDecodeWorkerHasAccepted) {
  Begin();
  Open();
  EXPECT_EQ(CountAsked<OpenDecode>(*request_), 1);
  EXPECT_EQ(CountAsked<StartPrefill>(*request_), 0);
  DecodeAccepts();
  EXPECT_EQ(CountAsked<StartPrefill>(*request_), 1);
  EXPECT_TRUE(request_->admitted);
  DecodeAccepts();
  EXPECT_TRUE(request_->failed()) << "it accepted twice";
}

TEST_F(RunningAttemptTest, OpensPrefillAtOnceWithoutADecodeWorker) {
  Begin();
  Open(true, false);
  EXPECT_EQ(CountAsked<OpenDecode>(*request_), 0);
  EXPECT_EQ(CountAsked<StartPrefill>(*request_), 1);
}

TEST_F(RunningAttemptTest, DeliversAFirstTokenOnceFromWhicheverWorkerComesFirst) {
  for (const bool prefill_first : {true, false}) {
    Begin();
    Open();
    DecodeAccepts();
    if (prefill_first) {
      EXPECT_FALSE(PrefillSends(Token(0, 0)).has_value());
    }
    DecodeSends(Token(0, 0));
    if (!prefill_first) {
      EXPECT_FALSE(PrefillSends(Token(0, 0)).has_value());
    }
    EXPECT_EQ(CountAsked<Deliver>(*request_), 1);
    EXPECT_FALSE(request_->failed());
    EXPECT_TRUE(running_->PromptComputed());
  }
}

TEST_F(RunningAttemptTest, UnequalCopiesEndTheRequest) {
  Begin();
  Open();
  DecodeAccepts();
  EXPECT_FALSE(PrefillSends(Token(0, 0)).has_value());
  DecodeSends(Token(0, 1));
  ASSERT_TRUE(request_->failed());
  EXPECT_EQ(request_->failure->code(), absl::StatusCode::kInternal);
}

TEST_F(RunningAttemptTest, BreaksWithItsPrefillWorkerBeforeTheCommitOnly) {
  Begin();
  Open();
  DecodeAccepts();
  const std::optional<Breakage> broken = running_->PrefillEnded(kKilled);
  ASSERT_TRUE(broken.has_value());
  EXPECT_EQ(broken->avoid, std::vector<uint64_t>{1});
  Begin();
  Open();
  DecodeAccepts();
  EXPECT_FALSE(PrefillSends(Token(0, 0)).has_value());
  DecodeCommits();
  EXPECT_FALSE(running_->PrefillEnded(kKilled).has_value());
  EXPECT_TRUE(running_->attempt().Is<Attempt::Decoding>());
  const std::optional<Breakage> lost = running_->DecodeEnded(kKilled);
  ASSERT_TRUE(lost.has_value());
  EXPECT_EQ(lost->avoid, std::vector<uint64_t>{2});
}

TEST_F(RunningAttemptTest, WaitsALittleForTheCommitAfterTheFirstToken) {
  Begin();
  Open();
  DecodeAccepts();
  EXPECT_FALSE(PrefillSends(Token(0, 0)).has_value());
  EXPECT_FALSE(running_->PrefillEnded(kKilled).has_value());
  EXPECT_EQ(running_->attempt().NextTimer(), request_->now + request_->options.broken_attempt_wait);
}

TEST_F(RunningAttemptTest, HoldsTheDecodeWorkerBackUntilThePromptsLogProbabilitiesAreThere) {
  RequestSpec spec = MachineHarness::Spec(3);
  spec.sampling.set_prompt_logprobs(0);
  Begin(std::move(spec));
  Open();
  DecodeAccepts();
  DecodeCommits();
  DecodeSends(Token(0, 0));
  EXPECT_FALSE(running_->DecodeEnded(kKilled).has_value());
  EXPECT_EQ(CountAsked<Deliver>(*request_), 0);
  PrefillResponse message;
  message.mutable_prompt_logprobs()->set_first_token(1);
  for (const float logprob : {-1.0F, -2.0F}) {
    message.mutable_prompt_logprobs()->add_logprobs(logprob);
  }
  EXPECT_TRUE(running_->Take(message).has_value()) << "the end comes behind what was held back";
  ASSERT_EQ(CountAsked<Deliver>(*request_), 2);
  EXPECT_FALSE(request_->failed());
  EXPECT_EQ(LastAsked<Deliver>(*request_)->response.chunk().text(), "a");
}

TEST_F(RunningAttemptTest, IsOverOnceItsChoicesHaveEndedAndBothWorkersHaveToldTheirTimes) {
  Begin(MachineHarness::Spec(2));
  Open();
  DecodeAccepts();
  EXPECT_FALSE(PrefillSends(Token(0, 0)).has_value());
  DecodeCommits();
  DecodeSends(Token(0, 0));
  DecodeSends(LastToken(1, 1, v1::FINISH_REASON_LENGTH));
  EXPECT_TRUE(running_->attempt().Is<Attempt::Finishing>());
  DecodeResponse decode;
  decode.mutable_finished()->set_exact(true);
  running_->Take(decode);
  EXPECT_TRUE(running_->attempt().Is<Attempt::Finishing>());
  PrefillResponse prefill;
  prefill.mutable_finished()->set_bytes_sent(1000);
  EXPECT_FALSE(running_->Take(prefill).has_value());
  EXPECT_TRUE(running_->attempt().Is<Attempt::Over>());
  EXPECT_EQ(CountAsked<CloseDecode>(*request_), 1);
  EXPECT_EQ(CountAsked<CancelDecode>(*request_) + CountAsked<CancelPrefill>(*request_), 0);
  EXPECT_EQ(request_->timings.kv_transfer_bytes(), 1000u);
}

TEST_F(RunningAttemptTest, StopsItsDecodeWorkerAtAStopString) {
  Begin(MachineHarness::Spec(9, {"b"}));
  Open(false, true);
  DecodeAccepts();
  DecodeSends(Token(0, 0));
  EXPECT_EQ(CountAsked<SendToDecode>(*request_), 0);
  DecodeSends(Token(1, 1));
  ASSERT_EQ(CountAsked<SendToDecode>(*request_), 1);
  EXPECT_TRUE(LastAsked<SendToDecode>(*request_)->message.has_stop());
}

}  // namespace
}  // namespace baton
