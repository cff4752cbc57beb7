#include "router/request/attempt_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/router/request/machine_harness.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

// Attempt 4 at the choices 1 and 2 of a request for five tokens, which have one token each.
class AttemptRequestsTest : public testing::Test {
 protected:
  AttemptRequestsTest() {
    RequestSpec spec = MachineHarness::Spec(5);
    spec.id_high = 11;
    spec.id_low = 12;
    spec.cache_salt = "salt";
    spec.sampling.set_n(3);
    spec.sampling.set_seed(13);
    request_.emplace(std::move(spec), LetterTable(), RequestMachineOptions());
    request_->now = request_->spec.received + absl::Seconds(1);
    request_->Append(Token(0, 7, 1));
    request_->Append(Token(0, 7, 2));
    attempt_.number = 4;
    attempt_.workers = MachineHarness::Chosen(true, true);
    attempt_.workers.decode_address = "d:1";
    attempt_.workers.pusher.set_worker_id("p");
    attempt_.workers.pusher.set_peer_id("spiffe://d/baton/prefill/p");
    attempt_.workers.decode_identity.set_architecture("llama");
    attempt_.choices = {{.choice = 1}, {.choice = 2}};
  }

  OpenDecode Open(uint32_t number, const WorkersChosen& workers) const {
    return MakeOpenDecode(*request_, attempt_, number, workers);
  }

  std::optional<RequestState> request_;
  Attempt attempt_;
};

TEST_F(AttemptRequestsTest, NeedsRoomForWhatThereIsAndWhatIsYetToCome) {
  attempt_.needs.avoid = {8};
  attempt_.needs.resumed = true;
  const WorkerNeeds needs = NeedsOf(*request_, attempt_);
  EXPECT_EQ(needs.prompt_tokens, 3u + 1);
  EXPECT_EQ(needs.max_total_tokens, 3u + 5);
  EXPECT_EQ(needs.choices, 2u);
  EXPECT_TRUE(needs.decode);
  EXPECT_TRUE(needs.resumed) << "what the attempts before asked for stays";
  EXPECT_THAT(needs.avoid, ElementsAre(8));
}

TEST_F(AttemptRequestsTest, NeedsNoDecodeWorkerForTheLastToken) {
  for (const uint32_t index : {1, 2}) request_->Append(Token(index, 7, 1));
  EXPECT_TRUE(NeedsOf(*request_, attempt_).decode) << "two are to come";
  request_->Append(Token(3, 7, 1));
  EXPECT_FALSE(NeedsOf(*request_, attempt_).decode);
}

TEST_F(AttemptRequestsTest, ADecodeWorkerGetsThePromptWithTheTokensSoFar) {
  const OpenDecode open = Open(4, attempt_.workers);
  EXPECT_EQ(open.attempt, 4u);
  EXPECT_EQ(open.worker_id, attempt_.workers.decode->id);
  EXPECT_FALSE(open.start.start().prefill_locally());
  const internal::v1::SequenceSpec& sequence = open.start.start().sequence();
  EXPECT_EQ(sequence.key().request_id_high(), 11u);
  EXPECT_EQ(sequence.key().request_id_low(), 12u);
  EXPECT_EQ(sequence.key().choice(), 1u);
  EXPECT_EQ(sequence.key().attempt(), 4u);
  EXPECT_THAT(sequence.token_ids(), ElementsAre(1, 2, 3, 7));
  EXPECT_EQ(sequence.prompt_length(), 3u);
  EXPECT_EQ(sequence.sampling().n(), 2u) << "the choices of this attempt";
  EXPECT_EQ(sequence.sampling().seed(), 13u);
  EXPECT_EQ(sequence.cache_salt(), "salt");
  EXPECT_EQ(sequence.capability(), attempt_.workers.capability);
  EXPECT_EQ(sequence.remaining_ms(), 599'000u);
  EXPECT_FALSE(sequence.isolate());
}

TEST_F(AttemptRequestsTest, EachWorkerOfEachAttemptGetsTheGrammar) {
  EXPECT_TRUE(Open(4, attempt_.workers).start.start().sequence().grammar().empty());
  RequestSpec spec = MachineHarness::Spec(5);
  spec.sampling.set_n(3);
  spec.grammar = std::make_shared<const std::string>("grammar");
  request_.emplace(std::move(spec), LetterTable(), RequestMachineOptions());
  for (const bool isolate : {false, true}) {
    attempt_.isolate = isolate;
    EXPECT_EQ(Open(4, attempt_.workers).start.start().sequence().grammar(), "grammar");
    EXPECT_EQ(MakeStartPrefill(*request_, attempt_, nullptr).request.sequence().grammar(),
              "grammar");
  }
  attempt_.workers.prefill.reset();
  EXPECT_EQ(Open(5, attempt_.workers).start.start().sequence().grammar(), "grammar");
}

TEST_F(AttemptRequestsTest, ADecodeWorkerIsToldWhoMayPush) {
  const internal::v1::DecodeStart pushed = Open(4, attempt_.workers).start.start();
  EXPECT_EQ(pushed.pusher().worker_id(), "p");
  EXPECT_EQ(pushed.pusher().peer_id(), "spiffe://d/baton/prefill/p");
  attempt_.workers.prefill.reset();
  EXPECT_FALSE(Open(4, attempt_.workers).start.start().has_pusher()) << "nobody does";
}

TEST_F(AttemptRequestsTest, AHedgedAttemptHasItsOwnNumberWorkerAndSecret) {
  WorkersChosen elsewhere = attempt_.workers;
  elsewhere.prefill.reset();
  elsewhere.decode = WorkerName{9, "d2"};
  elsewhere.capability = std::string(16, 'x');
  attempt_.isolate = true;
  const OpenDecode open = Open(5, elsewhere);
  EXPECT_EQ(open.attempt, 5u);
  EXPECT_EQ(open.worker_id, 9u);
  EXPECT_TRUE(open.start.start().prefill_locally()) << "it has no prefill worker";
  const internal::v1::SequenceSpec& sequence = open.start.start().sequence();
  EXPECT_EQ(sequence.key().attempt(), 5u);
  EXPECT_EQ(sequence.capability(), elsewhere.capability);
  EXPECT_TRUE(sequence.isolate());
  EXPECT_EQ(sequence.speculative(), v1::SPECULATIVE_NONE);
}

TEST_F(AttemptRequestsTest, WithoutADeadlineTheWorkersAreToldNone) {
  RequestSpec spec = MachineHarness::Spec(5);
  spec.sampling.set_n(3);
  spec.deadline = absl::InfiniteFuture();
  request_.emplace(std::move(spec), LetterTable(), RequestMachineOptions());
  EXPECT_FALSE(Open(4, attempt_.workers).start.start().sequence().has_remaining_ms());
}

TEST_F(AttemptRequestsTest, WhatIsOverdueHasAMillisecondLeft) {
  request_->now = request_->spec.deadline + absl::Seconds(1);
  EXPECT_EQ(Open(4, attempt_.workers).start.start().sequence().remaining_ms(), 1u);
  request_->now = request_->spec.deadline - absl::Hours(24 * 365);
  EXPECT_EQ(Open(4, attempt_.workers).start.start().sequence().remaining_ms(), UINT32_MAX);
}

TEST_F(AttemptRequestsTest, APrefillWorkerIsToldWhereToPushAndWhatIsHeldThere) {
  internal::v1::DecodeAccepted accepted;
  accepted.set_cached_tokens(16);
  accepted.mutable_shape()->set_layers(30);
  const StartPrefill start = MakeStartPrefill(*request_, attempt_, &accepted);
  EXPECT_EQ(start.attempt, 4u);
  EXPECT_EQ(start.worker_id, attempt_.workers.prefill->id);
  EXPECT_EQ(start.request.sequence().key().attempt(), 4u);
  EXPECT_THAT(start.request.sequence().token_ids(), ElementsAre(1, 2, 3, 7));
  EXPECT_EQ(start.request.decode_address(), "d:1");
  EXPECT_EQ(start.request.decode_identity().architecture(), "llama");
  EXPECT_EQ(start.request.decode_shape().layers(), 30u);
  EXPECT_EQ(start.request.decode_cached_tokens(), 16u);
}

TEST_F(AttemptRequestsTest, APrefillWithoutADecodeWorkerPushesNowhere) {
  const StartPrefill start = MakeStartPrefill(*request_, attempt_, nullptr);
  EXPECT_EQ(start.request.decode_address(), "");
  EXPECT_FALSE(start.request.has_decode_identity() || start.request.has_decode_shape());
}

TEST_F(AttemptRequestsTest, StopAndFlowGoToTheCallOfTheAttempt) {
  const SendToDecode stop = MakeStop(attempt_, 2);
  EXPECT_EQ(stop.attempt, 4u);
  EXPECT_EQ(stop.message.stop().choice(), 2u);
  for (const bool paused : {true, false}) {
    const SendToDecode flow = MakeFlow(attempt_, paused);
    EXPECT_EQ(flow.attempt, 4u);
    ASSERT_TRUE(flow.message.has_flow());
    EXPECT_EQ(flow.message.flow().paused(), paused);
  }
}

}  // namespace
}  // namespace baton
