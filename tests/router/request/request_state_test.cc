#include "router/request/request_state.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "common/rpc/duration.h"
#include "tests/router/request/asked_actions.h"
#include "tests/router/request/machine_harness.h"

namespace baton {
namespace {

RequestSpec SpecOfState(uint32_t choices = 1) {
  RequestSpec spec = MachineHarness::Spec(5);
  spec.client_request_id = "r";
  spec.return_token_ids = false;
  spec.sampling.set_n(choices);
  spec.sampling.set_seed(77);
  return spec;
}

TEST(RequestState, DeliversWhatATokenLetsThrough) {
  RequestState request(SpecOfState(), LetterTable(), {});
  request.Append(Token(0, 27));
  EXPECT_EQ(CountAsked<Deliver>(request), 0) << "half a character";
  request.Append(Token(1, 28));
  ASSERT_EQ(CountAsked<Deliver>(request), 1);
  EXPECT_EQ(LastAsked<Deliver>(request)->response.request_id(), "r");
  EXPECT_EQ(LastAsked<Deliver>(request)->response.chunk().text(), "é");
  EXPECT_EQ(request.choices[0].log.size(), 2u);
}

TEST(RequestState, TimesTheFirstTokenOfAllChoicesAndCountsGuesses) {
  RequestState request(SpecOfState(2), LetterTable(), {});
  request.now = request.spec.received + absl::Milliseconds(50);
  request.Append(Token(0, 0, 1));
  request.now += absl::Milliseconds(50);
  request.Append(Guessed(Token(0, 0, 0)));
  request.Append(Refusing(Token(1, 0, 0), 3));
  EXPECT_EQ(DurationFromProto(request.timings.time_to_first_token()), absl::Milliseconds(50));
  EXPECT_EQ(request.usage.accepted_prediction_tokens(), 1u);
  EXPECT_EQ(request.usage.rejected_prediction_tokens(), 3u);
}

TEST(RequestState, TheCompleteTellsOfEveryChoiceAndTheUsageOfAllInTheLast) {
  RequestState request(SpecOfState(2), LetterTable(), {});
  request.Append(Token(0, 0, 0));
  request.Append(LastToken(1, 1, v1::FINISH_REASON_LENGTH, 0));
  EXPECT_TRUE(request.Ended(0));
  EXPECT_FALSE(request.Ended(1));
  request.Append(LastToken(0, 2, v1::FINISH_REASON_LENGTH, 1));
  request.exact = false;
  request.system_fingerprint = "f";
  request.now = request.spec.received + absl::Seconds(2);
  const Complete complete = request.MakeComplete();
  ASSERT_EQ(complete.responses.size(), 2u);
  for (uint32_t i = 0; i < 2; ++i) {
    const v1::GenerateComplete& told = complete.responses[i].complete();
    EXPECT_EQ(complete.responses[i].request_id(), "r");
    EXPECT_EQ(told.index(), i);
    EXPECT_EQ(told.seed(), 77u);
    EXPECT_EQ(told.system_fingerprint(), "f");
    EXPECT_FALSE(told.timings().exact());
    EXPECT_EQ(DurationFromProto(told.timings().total()), absl::Seconds(2));
    EXPECT_EQ(told.has_usage(), i == 1);
  }
  const v1::Usage& usage = complete.responses[1].complete().usage();
  EXPECT_EQ(usage.prompt_tokens(), 3u);
  EXPECT_EQ(usage.completion_tokens(), 3u);
  EXPECT_EQ(usage.total_tokens(), 6u);
}

TEST(RequestState, KeepsLogProbabilitiesOfThePromptForTheCompleteWithoutAStream) {
  for (const bool stream : {true, false}) {
    RequestSpec spec = SpecOfState();
    spec.stream = stream;
    spec.sampling.set_prompt_logprobs(0);
    RequestState request(std::move(spec), LetterTable(), {});
    EXPECT_TRUE(request.lacks_prompt_logprobs);
    PromptLogprobs logprobs = request.NewPromptLogprobs();
    EXPECT_FALSE(logprobs.complete());
    internal::v1::PromptLogprobs message;
    message.set_first_token(1);
    message.add_logprobs(-1);
    message.add_logprobs(-2);
    ASSERT_EQ(logprobs.Add(message), std::nullopt);
    request.TakePromptLogprobs(std::move(logprobs));
    EXPECT_FALSE(request.lacks_prompt_logprobs);
    EXPECT_EQ(CountAsked<Deliver>(request), stream ? 1 : 0);
    request.Append(LastToken(0, 0, v1::FINISH_REASON_LENGTH));
    EXPECT_EQ(request.MakeComplete().responses[0].complete().prompt_logprobs_size(),
              stream ? 0 : 3);
  }
}

TEST(RequestState, GoesOnWithTheVeryNumericsOfItsTokensAlone) {
  RequestState request(SpecOfState(), LetterTable(), {});
  WorkersChosen workers = MachineHarness::Chosen(true, true);
  workers.prefill_numerics = "cuda";
  EXPECT_EQ(NumericsOfPrompt(workers), "cuda");
  EXPECT_TRUE(request.Continues(workers)) << "it has no tokens";
  request.numerics = "cpu";
  EXPECT_FALSE(request.Continues(workers));
  workers.prefill.reset();
  EXPECT_TRUE(request.Continues(workers)) << "the decode worker computes the prompt";
  request.numerics = workers.decode_numerics = "cuda-varying";
  EXPECT_FALSE(request.Continues(workers)) << "equal inputs may give other bits";
}

TEST(RequestState, KeepsTheAccountOfItsClient) {
  RequestState request(SpecOfState(), LetterTable(), {});
  request.CountQueue(absl::Milliseconds(20));
  request.CountQueue(absl::Milliseconds(30));
  EXPECT_EQ(DurationFromProto(request.timings.queue()), absl::Milliseconds(50));
  request.CountCachedTokens(4000);
  EXPECT_EQ(request.usage.cached_tokens(), 3u) << "it has no more";
  request.CountCachedTokens(1);
  EXPECT_EQ(request.usage.cached_tokens(), 3u) << "the first attempt's count";
  request.TellWorkers(MachineHarness::Chosen(true, true));
  EXPECT_EQ(request.timings.prefill_worker(), "p");
  EXPECT_FALSE(request.timings.local_prefill());
  request.TellWorkers(MachineHarness::Chosen(false, true));
  EXPECT_EQ(request.timings.decode_worker(), "d");
  EXPECT_TRUE(request.timings.local_prefill());
}

TEST(RequestState, FailsOnce) {
  RequestState request(SpecOfState(), LetterTable(), {});
  EXPECT_FALSE(request.failed());
  request.Fail(absl::InternalError("first"));
  request.Fail(absl::UnavailableError("second"));
  EXPECT_EQ(*request.failure, absl::InternalError("first"));
}

}  // namespace
}  // namespace baton
