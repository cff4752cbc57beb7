// Requests with several choices: together until they part, each alone after a break.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "common/rpc/status.h"
#include "tests/router/request/machine_harness.h"
#include "tests/router/request/played_workers.h"

namespace baton {
namespace {

using internal::v1::OutputToken;

RequestSpec Spec(uint32_t choices, uint32_t max_tokens, std::vector<std::string> stop = {}) {
  RequestSpec spec = MachineHarness::Spec(max_tokens, std::move(stop));
  spec.sampling.set_n(choices);
  return spec;
}

// Up to the commit, every choice with its first token: a, b, c...
MachineHarness DecodingChoices(uint32_t choices, uint32_t max_tokens) {
  MachineHarness harness(Spec(choices, max_tokens));
  harness.Choose(true, true);
  harness.DecodeAccepts();
  harness.PrefillStarts();
  for (uint32_t i = 0; i < choices; ++i) harness.PrefillSends(Token(0, i, i));
  harness.DecodeCommits();
  harness.PrefillFinishes();
  harness.PrefillEnds(absl::OkStatus());
  std::vector<OutputToken> first;
  for (uint32_t i = 0; i < choices; ++i) first.push_back(Token(0, i, i));
  harness.DecodeSends(first);
  return harness;
}

void DecodeFinishes(MachineHarness& harness, uint32_t attempt, uint32_t choice) {
  DecodeMessage event{.attempt = attempt, .message = {}};
  event.message.mutable_finished()->set_exact(true);
  event.message.mutable_finished()->set_choice(choice);
  harness.Feed(event);
}

TEST(RequestChoices, AreComputedTogetherAndDeliveredByIndex) {
  MachineHarness harness = DecodingChoices(3, 2);
  const auto& sequence = harness.Last<StartPrefill>()->request.sequence();
  EXPECT_EQ(sequence.key().choice(), 0u);
  EXPECT_EQ(sequence.sampling().n(), 3u);
  EXPECT_EQ(harness.Count<OpenDecode>(), 1);
  harness.DecodeSends({LastToken(1, 7, v1::FINISH_REASON_LENGTH, 0),
                       LastToken(1, 26, v1::FINISH_REASON_STOP, 1),
                       LastToken(1, 9, v1::FINISH_REASON_LENGTH, 2)});
  for (uint32_t choice = 0; choice < 3; ++choice) {
    EXPECT_EQ(harness.terminals(), 0);
    DecodeFinishes(harness, 1, choice);
  }
  ASSERT_EQ(harness.Count<Complete>(), 1) << harness.failure();
  const auto& responses = harness.Last<Complete>()->responses;
  ASSERT_EQ(responses.size(), 3u);
  for (uint32_t choice = 0; choice < 3; ++choice) {
    EXPECT_EQ(responses[choice].complete().index(), choice);
    EXPECT_EQ(responses[choice].complete().has_usage(), choice == 2);
  }
  EXPECT_EQ(harness.ids_of[0], (std::vector<uint32_t>{0, 7}));
  EXPECT_EQ(harness.ids_of[1], (std::vector<uint32_t>{1}));
  EXPECT_EQ(harness.ids_of[2], (std::vector<uint32_t>{2, 9}));
  const v1::Usage& usage = responses[2].complete().usage();
  EXPECT_EQ(usage.prompt_tokens(), 3u);
  EXPECT_EQ(usage.completion_tokens(), 6u);
  EXPECT_EQ(usage.total_tokens(), 9u);
}

TEST(RequestChoices, BeginAnewTogetherBeforeAnyOfThemHasAToken) {
  MachineHarness harness(Spec(3, 5));
  harness.Choose(true, true);
  harness.DecodeAccepts();
  harness.PrefillStarts();
  harness.PrefillEnds(kKilled);
  EXPECT_EQ(harness.Count<ChooseWorkers>(), 2);
  EXPECT_EQ(harness.Last<ChooseWorkers>()->needs.choices, 3u);
  harness.Choose(true, true);
  EXPECT_EQ(harness.Last<OpenDecode>()->start.start().sequence().sampling().n(), 3u);
  EXPECT_EQ(harness.Last<OpenDecode>()->attempt, 2u);
}

TEST(RequestChoices, GoOnAloneAfterABreakThatFollowsTheirFirstTokens) {
  MachineHarness harness = DecodingChoices(3, 5);
  harness.DecodeSends({LastToken(1, 26, v1::FINISH_REASON_STOP, 1), Token(1, 8, 2)});
  harness.DecodeEnds(kKilled);
  std::vector<uint32_t> attempts;
  for (const RequestAction& action : harness.actions) {
    const auto* ask = std::get_if<ChooseWorkers>(&action);
    if (ask == nullptr || ask->attempt == 1) continue;
    EXPECT_EQ(ask->needs.choices, 1u);
    EXPECT_EQ(ask->needs.avoid, std::vector<uint64_t>{2});
    attempts.push_back(ask->attempt);
  }
  ASSERT_EQ(attempts, (std::vector<uint32_t>{2, 3})) << "of the two that have not ended";
  EXPECT_FALSE(harness.machine.running(1));
  EXPECT_TRUE(harness.machine.running(2) && harness.machine.running(3));
  for (const uint32_t attempt : attempts) {
    WorkersChosen chosen = MachineHarness::Chosen(true, true);
    chosen.attempt = attempt;
    harness.Feed(chosen);
    const auto& sequence = harness.Last<OpenDecode>()->start.start().sequence();
    EXPECT_EQ(sequence.key().attempt(), attempt);
    EXPECT_EQ(sequence.key().choice(), attempt == 2 ? 0u : 2u);
    EXPECT_EQ(sequence.sampling().n(), 1u);
    EXPECT_EQ(sequence.token_ids_size(), attempt == 2 ? 4 : 5);
    EXPECT_EQ(sequence.prompt_length(), 3u);
  }
  harness.Feed(ClientCancelled{});
  EXPECT_EQ(harness.Count<CancelDecode>(), 2) << "each of them";
}

// The prefill worker ends before it has told the second choice's first token.
TEST(RequestChoices, WrongKvEndsAllOfThemOnceOneHasEndedInThatAttempt) {
  MachineHarness harness(Spec(2, 9));
  harness.Choose(true, true);
  harness.DecodeAccepts();
  harness.PrefillStarts();
  harness.PrefillSends(LastToken(0, 26, v1::FINISH_REASON_STOP, 0));
  harness.DecodeEnds(KvWrong());
  harness.PrefillEnds(absl::CancelledError("cancelled"));
  EXPECT_EQ(harness.Count<ChooseWorkers>(), 1) << "none goes on";
  EXPECT_EQ(ErrorReason(harness.failure()), kReasonKvWrong) << harness.failure();
}

TEST(RequestChoices, OneThatAStopStringEndsIsStoppedAndTheOthersGoOn) {
  MachineHarness harness(Spec(2, 9, {"a"}));
  harness.Choose(true, true);
  harness.DecodeAccepts();
  harness.PrefillSends(Token(0, 0, 0));
  harness.PrefillSends(Token(0, 1, 1));
  ASSERT_EQ(harness.Count<SendToDecode>(), 1);
  EXPECT_EQ(harness.Last<SendToDecode>()->message.stop().choice(), 0u);
  EXPECT_EQ(harness.Last<SendToDecode>()->attempt, 1u);
  EXPECT_EQ(harness.terminals(), 0);
  harness.DecodeCommits();
  harness.PrefillFinishes();
  DecodeFinishes(harness, 1, 0);
  harness.DecodeSends({Token(0, 1, 1), Token(1, 0, 1)});
  EXPECT_EQ(harness.Count<SendToDecode>(), 2);
  DecodeFinishes(harness, 1, 1);
  ASSERT_EQ(harness.Count<Complete>(), 1) << harness.failure();
  EXPECT_EQ(harness.text, "b");
}

TEST(RequestChoices, OfOneTokenEachNeedNoDecodeWorker) {
  MachineHarness harness(Spec(2, 1));
  EXPECT_FALSE(harness.Last<ChooseWorkers>()->needs.decode);
  harness.Choose(true, false);
  harness.PrefillStarts();
  harness.PrefillSends(LastToken(0, 4, v1::FINISH_REASON_LENGTH, 0));
  harness.PrefillSends(LastToken(0, 5, v1::FINISH_REASON_LENGTH, 1));
  harness.PrefillFinishes();
  ASSERT_EQ(harness.Count<Complete>(), 1) << harness.failure();
  EXPECT_EQ(harness.ids_of[1], std::vector<uint32_t>{5});
}

TEST(RequestChoices, AreEachPoisonByThemselves) {
  MachineHarness harness = DecodingChoices(2, 9);
  harness.DecodeEnds(kKilled);  // once for each of them
  std::set<uint32_t> isolated;
  for (int death = 1; death < 4 && harness.terminals() == 0; ++death) {
    for (int i = 0; i < 20 && harness.Last<ChooseWorkers>()->attempt != harness.machine.attempt();
         ++i) {
      harness.PassTime(absl::Seconds(2));
    }
    // The second choice alone kills again and again.
    WorkersChosen chosen = MachineHarness::Chosen(false, true);
    chosen.attempt = harness.machine.attempt();
    harness.Feed(chosen);
    const auto& sequence = harness.Last<OpenDecode>()->start.start().sequence();
    EXPECT_EQ(sequence.key().choice(), 1u);
    EXPECT_EQ(sequence.isolate(), death >= 2) << death;
    harness.DecodeAccepts();
    DecodeMessage committed{.attempt = harness.machine.attempt(), .message = {}};
    committed.message.mutable_committed()->set_exact(true);
    harness.Feed(committed);
    harness.DecodeEnds(kKilled);
  }
  EXPECT_EQ(ErrorReason(harness.failure()), kReasonPoisonRequest);
}

// Deaths and refusals at any moment: one terminal; what each choice was given is a beginning of its
// right tokens, and all of them where the request completed, which the usage says too.
TEST(RequestChoices, EndOnceWithTheRightTokensOfEachUnderAnyInterleavingAndAnyDeaths) {
  int completed = 0, resumed = 0, before = 0, after = 0, moved_before = 0, moved_after = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const uint32_t choices = 1 + random() % 4;
    const uint32_t most = 1 + random() % 8;
    const bool stop_string = random() % 3 == 0;
    std::vector<PlayedWorkers::Tokens> right(choices);
    std::vector<std::vector<uint32_t>> visible(choices);
    size_t completion_tokens = 0;
    for (uint32_t choice = 0; choice < choices; ++choice) {
      const uint32_t count = 1 + random() % most;
      for (uint32_t i = 0; i + 1 < count; ++i) {
        right[choice].push_back(Token(i, random() % 26, choice));
      }
      right[choice].push_back(
          count < most ? LastToken(count - 1, 26, v1::FINISH_REASON_STOP, choice)
                       : LastToken(count - 1, random() % 26, v1::FINISH_REASON_LENGTH, choice));
      for (const OutputToken& token : right[choice]) {
        ++completion_tokens;
        const uint32_t id = token.token().token_id();
        if (id < 26) visible[choice].push_back(id);
        if (stop_string && id == 25) break;
      }
    }
    MachineHarness harness(Spec(
        choices, most, stop_string ? std::vector<std::string>{"z"} : std::vector<std::string>{}));
    PlayedWorkers workers(harness, right, seed);
    const int deaths = random() % 2 == 0 ? 0 : 1 + static_cast<int>(random() % 3);
    int died = 0;
    for (int turn = 0; turn < 5000 && harness.terminals() == 0; ++turn) {
      workers.Refuse(deaths > 0 && turn < 40);
      if (died < deaths && random() % 12 == 0) {
        workers.Kill();
        ++died;
      }
      if (!workers.Turn()) harness.PassTime(absl::Seconds(1));
      if (random() % 10 == 0) harness.PassTime(absl::Milliseconds(random() % 1500));
    }
    ASSERT_EQ(harness.terminals(), 1);
    ASSERT_EQ(harness.Count<Complete>(), 1) << harness.failure();
    ++completed;
    before += workers.kills_before_tokens();
    after += workers.kills_after_tokens();
    moved_before += workers.moves_before_tokens();
    moved_after += workers.moves_after_tokens();
    resumed += harness.machine.attempt() > choices;
    for (uint32_t choice = 0; choice < choices; ++choice) {
      ASSERT_EQ(harness.ids_of[choice], visible[choice]) << choice;
    }
    const v1::Usage& usage = harness.machine.usage();
    ASSERT_EQ(usage.completion_tokens(), completion_tokens);
    ASSERT_EQ(usage.total_tokens(), completion_tokens + 3);
    ASSERT_LE(usage.cached_tokens(), 1u);
    const size_t actions_at_end = harness.actions.size();
    harness.DecodeSends({Token(0, 1)});
    ASSERT_EQ(harness.actions.size(), actions_at_end) << "nothing follows the terminal";
  }
  EXPECT_EQ(completed, 3000);
  EXPECT_GT(resumed, 100);
  EXPECT_GT(before, 300);
  EXPECT_GT(after, 300);
  EXPECT_GT(moved_before, 50);
  EXPECT_GT(moved_after, 50);
}

}  // namespace
}  // namespace baton
