#include "router/request/prompt_logprobs.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/router/request/machine_harness.h"

namespace baton {
namespace {

float LogprobOf(uint32_t place) { return -1.0f - static_cast<float>(place); }

// Makes the message for `count` tokens from `first` on, with one likely token each.
internal::v1::PromptLogprobs Piece(uint32_t first, uint32_t count) {
  internal::v1::PromptLogprobs piece;
  piece.set_first_token(first);
  for (uint32_t place = first; place < first + count; ++place) {
    piece.add_logprobs(LogprobOf(place));
    piece.add_top_token_ids(place + 10);
    piece.add_top_logprobs(-0.5f);
  }
  return piece;
}

baton::PromptLogprobs OfFourTokens() {
  return baton::PromptLogprobs({.prompt_tokens = 4, .likeliest = 1, .vocab_size = 29});
}

TEST(PromptLogprobs, AreToldWithTheirTokensAndTheFirstHasNone) {
  baton::PromptLogprobs logprobs = OfFourTokens();
  EXPECT_EQ(logprobs.Add(Piece(1, 1)), std::nullopt);
  EXPECT_FALSE(logprobs.complete());
  EXPECT_EQ(logprobs.Add(Piece(2, 2)), std::nullopt);
  ASSERT_TRUE(logprobs.complete());
  const auto told = logprobs.ForClient({3, 2, 1, 0}, LetterTable(), 0, SIZE_MAX);
  ASSERT_EQ(told.size(), 4);
  EXPECT_FALSE(told[0].has_logprob());
  EXPECT_EQ(told[0].token(), "d");
  EXPECT_EQ(told[0].top_logprobs_size(), 0);
  for (uint32_t place = 1; place < 4; ++place) {
    const v1::TokenLogprob& token = told[static_cast<int>(place)];
    EXPECT_EQ(token.token_id(), 3 - place);
    EXPECT_EQ(token.logprob(), LogprobOf(place));
    ASSERT_EQ(token.top_logprobs_size(), 1);
    EXPECT_EQ(token.top_logprobs(0).token_id(), place + 10);
    EXPECT_EQ(token.top_logprobs(0).token(), std::string(1, static_cast<char>('k' + place)));
    EXPECT_EQ(token.top_logprobs(0).logprob(), -0.5f);
  }
}

TEST(PromptLogprobs, ComeInPiecesOfTheirBound) {
  baton::PromptLogprobs logprobs = OfFourTokens();
  EXPECT_EQ(logprobs.Add(Piece(1, 3)), std::nullopt);
  size_t next = 0;
  std::vector<int> sizes;
  while (next < 4) {
    sizes.push_back(logprobs.ForClient({3, 2, 1, 0}, LetterTable(), next, 20).size());
    next += static_cast<size_t>(sizes.back());
  }
  EXPECT_EQ(sizes, (std::vector<int>{2, 1, 1}));
}

TEST(PromptLogprobs, RefuseWhatCannotBeNext) {
  internal::v1::PromptLogprobs without_likely = Piece(2, 1);
  without_likely.clear_top_logprobs();
  internal::v1::PromptLogprobs outside = Piece(2, 1);
  outside.set_top_token_ids(0, 29);
  for (const auto& wrong :
       {Piece(1, 1), Piece(3, 1), Piece(0, 1), Piece(2, 0), Piece(2, 3), without_likely, outside}) {
    baton::PromptLogprobs logprobs = OfFourTokens();
    EXPECT_EQ(logprobs.Add(Piece(1, 1)), std::nullopt);
    EXPECT_NE(logprobs.Add(wrong), std::nullopt) << wrong.ShortDebugString();
    EXPECT_EQ(logprobs.Add(Piece(2, 2)), std::nullopt) << "nothing was taken";
  }
}

// The machine. Its prompt has three tokens.

RequestSpec ScoringSpec(uint32_t max_tokens) {
  RequestSpec spec = MachineHarness::Spec(max_tokens);
  spec.sampling.set_prompt_logprobs(1);
  return spec;
}

MachineHarness ScoringPrefill(uint32_t max_tokens = 3) {
  MachineHarness harness(ScoringSpec(max_tokens));
  harness.Choose(true, true);
  harness.DecodeAccepts();
  harness.PrefillStarts();
  return harness;
}

void PrefillScores(MachineHarness& harness, internal::v1::PromptLogprobs piece) {
  PrefillMessage event{.attempt = harness.machine.attempt(), .message = {}};
  *event.message.mutable_prompt_logprobs() = std::move(piece);
  harness.Feed(event);
}

// The log probabilities that were delivered, those that lack one as 0.
std::vector<float> Delivered(const MachineHarness& harness) {
  std::vector<float> told;
  for (const RequestAction& action : harness.actions) {
    const auto* deliver = std::get_if<Deliver>(&action);
    if (deliver == nullptr) continue;
    for (const auto& token : deliver->response.chunk().prompt_logprobs()) {
      told.push_back(token.has_logprob() ? token.logprob() : 0);
    }
  }
  return told;
}
const std::vector<float> kAll = {0, LogprobOf(1), LogprobOf(2)};

TEST(ScoringRequest, TellsThemBeforeItsFirstToken) {
  MachineHarness harness = ScoringPrefill();
  EXPECT_TRUE(harness.Last<ChooseWorkers>()->needs.whole_prompt);
  EXPECT_TRUE(harness.Last<StartPrefill>()->request.sequence().sampling().has_prompt_logprobs());
  PrefillScores(harness, Piece(1, 1));
  EXPECT_TRUE(Delivered(harness).empty());
  PrefillScores(harness, Piece(2, 1));
  EXPECT_EQ(Delivered(harness), kAll);
  EXPECT_TRUE(harness.text.empty());
  harness.PrefillSends(Abc()[0]);
  harness.DecodeCommits();
  harness.DecodeSends(Abc());
  harness.PrefillFinishes();
  harness.DecodeFinishes();
  ASSERT_EQ(harness.Count<Complete>(), 1);
  EXPECT_EQ(harness.text, "abc");
  EXPECT_EQ(Delivered(harness), kAll);
  EXPECT_EQ(harness.complete().prompt_logprobs_size(), 0);
}

TEST(ScoringRequest, HasThemInTheCompleteWithoutAStream) {
  RequestSpec spec = ScoringSpec(1);
  spec.stream = false;
  MachineHarness harness(std::move(spec));
  harness.Choose(true, false);
  harness.PrefillStarts();
  PrefillScores(harness, Piece(1, 2));
  harness.PrefillSends(LastToken(0, 0, v1::FINISH_REASON_LENGTH));
  harness.PrefillFinishes();
  ASSERT_EQ(harness.Count<Complete>(), 1);
  EXPECT_TRUE(Delivered(harness).empty());
  ASSERT_EQ(harness.complete().prompt_logprobs_size(), 3);
  EXPECT_EQ(harness.complete().prompt_logprobs(2).logprob(), LogprobOf(2));
}

TEST(ScoringRequest, TakesThemFromALocalPrefill) {
  MachineHarness harness(ScoringSpec(3));
  harness.Choose(false, true);
  harness.DecodeAccepts();
  DecodeMessage event{.attempt = harness.machine.attempt(), .message = {}};
  *event.message.mutable_prompt_logprobs() = Piece(1, 2);
  harness.Feed(event);
  harness.DecodeSends(Abc());
  harness.DecodeFinishes();
  ASSERT_EQ(harness.Count<Complete>(), 1);
  EXPECT_EQ(Delivered(harness), kAll);
}

TEST(ScoringRequest, HoldsBackADecodeWorkerThatIsHeardBeforeThem) {
  MachineHarness harness = ScoringPrefill();
  PrefillScores(harness, Piece(1, 1));
  harness.DecodeCommits();
  harness.DecodeSends(Abc());
  harness.DecodeFinishes();
  harness.DecodeEnds(absl::OkStatus());
  EXPECT_TRUE(harness.text.empty());
  EXPECT_EQ(harness.terminals(), 0);
  PrefillScores(harness, Piece(2, 1));
  EXPECT_EQ(Delivered(harness), kAll);
  EXPECT_EQ(harness.text, "abc");
  harness.PrefillSends(Abc()[0]);
  harness.PrefillFinishes();
  ASSERT_EQ(harness.Count<Complete>(), 1);
  EXPECT_TRUE(harness.complete().timings().exact());
}

TEST(ScoringRequest, GoesOnBehindADecodeWorkerThatDiedWhileItWasHeldBack) {
  MachineHarness harness = ScoringPrefill();
  harness.DecodeCommits();
  harness.DecodeSends({Abc()[0], Abc()[1]});
  harness.DecodeEnds(kKilled);
  EXPECT_EQ(harness.machine.attempt(), 1u);
  PrefillScores(harness, Piece(1, 2));
  EXPECT_EQ(Delivered(harness), kAll);
  EXPECT_EQ(harness.text, "ab");
  EXPECT_EQ(harness.machine.attempt(), 2u);
}

TEST(ScoringRequest, BeginsAnewWhereTheyBreakOffAndTellsEachOnce) {
  for (const bool committed : {false, true}) {
    MachineHarness harness = ScoringPrefill();
    PrefillScores(harness, Piece(1, 1));
    if (committed) {
      harness.DecodeCommits();
      harness.DecodeSends({Abc()[0]});
    }
    harness.PrefillEnds(kKilled);
    ASSERT_EQ(harness.machine.attempt(), 2u);
    EXPECT_TRUE(Delivered(harness).empty());
    EXPECT_TRUE(harness.text.empty());
    harness.PassTime(absl::Seconds(1));
    harness.Choose(true, true);
    harness.DecodeAccepts();
    harness.PrefillStarts();
    EXPECT_TRUE(harness.Last<StartPrefill>()->request.sequence().sampling().has_prompt_logprobs());
    PrefillScores(harness, Piece(1, 2));
    harness.PrefillSends(Abc()[0]);
    harness.DecodeCommits();
    harness.DecodeSends(Abc());
    harness.PrefillFinishes();
    harness.DecodeFinishes();
    ASSERT_EQ(harness.Count<Complete>(), 1) << harness.failure();
    EXPECT_EQ(harness.text, "abc");
    EXPECT_EQ(Delivered(harness), kAll);
  }
}

TEST(ScoringRequest, AsksForThemNoMoreOnceItHasThem) {
  MachineHarness harness = ScoringPrefill();
  PrefillScores(harness, Piece(1, 2));
  harness.PrefillEnds(kKilled);
  harness.PassTime(absl::Seconds(1));
  EXPECT_FALSE(harness.Last<ChooseWorkers>()->needs.whole_prompt);
  harness.Choose(true, true);
  harness.DecodeAccepts();
  harness.PrefillStarts();
  EXPECT_FALSE(harness.Last<StartPrefill>()->request.sequence().sampling().has_prompt_logprobs());
  harness.PrefillSends(Abc()[0]);
  EXPECT_EQ(harness.text, "a");
  EXPECT_EQ(Delivered(harness), kAll);
}

TEST(ScoringRequest, EndsInternalWhereAWorkerLeavesSomeOutOrSaysThemTwice) {
  MachineHarness early = ScoringPrefill();
  PrefillScores(early, Piece(1, 1));
  early.PrefillSends(Abc()[0]);
  EXPECT_EQ(early.failure().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(GetErrorInfo(early.failure())->worker, "p");
  MachineHarness twice = ScoringPrefill();
  PrefillScores(twice, Piece(1, 1));
  PrefillScores(twice, Piece(1, 1));
  EXPECT_EQ(twice.failure().code(), absl::StatusCode::kInternal);
}

TEST(ScoringRequest, OfOneTokenHasNothingToWaitFor) {
  RequestSpec spec = ScoringSpec(3);
  spec.prompt_token_ids = {4};
  MachineHarness harness(std::move(spec));
  harness.Choose(true, true);
  harness.DecodeAccepts();
  harness.PrefillStarts();
  harness.DecodeCommits();
  harness.DecodeSends(Abc());
  EXPECT_EQ(Delivered(harness), std::vector<float>{0});
  EXPECT_EQ(harness.text, "abc");
}

TEST(ScoringRequest, WithoutOutputHasThePromptAloneAndNoCompletionTokens) {
  RequestSpec spec = ScoringSpec(1);
  spec.no_output = true;
  spec.echo = true;
  MachineHarness harness(std::move(spec));
  EXPECT_FALSE(harness.Last<ChooseWorkers>()->needs.decode);
  harness.Choose(true, false);
  harness.PrefillStarts();
  PrefillScores(harness, Piece(1, 2));
  harness.PrefillSends(LastToken(0, 0, v1::FINISH_REASON_STOP));
  harness.PrefillFinishes();
  ASSERT_EQ(harness.Count<Complete>(), 1);
  EXPECT_EQ(harness.text, "bcd");
  EXPECT_TRUE(harness.ids.empty());
  EXPECT_EQ(harness.complete().finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_FALSE(harness.complete().has_matched_token_id());
  EXPECT_EQ(harness.complete().usage().prompt_tokens(), 3u);
  EXPECT_EQ(harness.complete().usage().completion_tokens(), 0u);
  EXPECT_EQ(harness.complete().usage().total_tokens(), 3u);
}

}  // namespace
}  // namespace baton
