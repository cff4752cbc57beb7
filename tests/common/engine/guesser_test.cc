#include "common/engine/guesser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "common/kv/token_range.h"
#include "tests/common/engine/engine_harness.h"
#include "tests/common/engine/engine_parts.h"
#include "tests/common/engine/guessing_parts.h"

namespace baton {
namespace {

std::vector<OutputToken> TokensTold(const EngineParts& parts) {
  std::vector<OutputToken> tokens;
  for (const SequenceEvent& event : parts.events) {
    if (const auto* produced = std::get_if<TokenProduced>(&event))
      tokens.push_back(produced->token);
  }
  return tokens;
}

std::vector<OutputToken> RunWithoutGuesses(SequenceRequest request) {
  EngineParts parts(/*steps_ahead=*/0);
  AddTo(parts, std::move(request));
  while (parts.sequences.Find(1) != nullptr) RunStep(parts);
  return TokensTold(parts);
}

// The prompt, and the outputs without guesses.
Script ScriptOf(const SequenceRequest& request) {
  Script script{.tokens = request.token_ids, .lies = {}};
  for (const OutputToken& token : RunWithoutGuesses(request)) {
    script.tokens.push_back(token.token_id);
  }
  return script;
}

// A greedy sequence of 20 tokens whose outputs the script knows.
class Guesses : public testing::Test {
 protected:
  Guesses() { script_ = ScriptOf(GreedyRequest(plain_)); }
  std::vector<int32_t> Outputs(int count) const {
    return {script_.tokens.begin() + 20, script_.tokens.begin() + 20 + count};
  }

  EngineParts plain_{/*steps_ahead=*/0};
  Script script_;
};

struct GuessesTold {
  std::vector<int> accepted;   // outputs that were guessed
  std::map<int, int> refused;  // by the output that they were told with
  explicit GuessesTold(const EngineParts& parts) {
    for (const SequenceEvent& event : parts.events) {
      const auto* produced = std::get_if<TokenProduced>(&event);
      if (produced == nullptr) continue;
      const int output = produced->token.output_index;
      if (produced->guessed) accepted.push_back(output);
      if (produced->refused_guesses > 0) refused[output] = produced->refused_guesses;
    }
  }
};

TEST_F(Guesses, GiveAStepTheTrueOnesAndTheTokenBehindThem) {
  script_.lies = {20 + 4, 20 + 6};
  EngineParts parts(0, By(script_));
  const Sequence& sequence = AddTo(parts, GreedyRequest(parts));
  EXPECT_EQ(RunStep(parts).batch[0].guess_count(), 0);  // the prompt
  EXPECT_EQ(parts.TokenIds(), Outputs(1));
  EXPECT_EQ(RunStep(parts).batch[0].guess_count(), 15);  // a step samples 16 tokens
  EXPECT_EQ(parts.TokenIds(), Outputs(5)) << "three true guesses, and the token at the lie";
  EXPECT_EQ(sequence.kv.computed_tokens, 24);
  RunStep(parts);
  EXPECT_EQ(parts.TokenIds(), Outputs(7));
  RunStep(parts);
  EXPECT_EQ(parts.TokenIds(), Outputs(7 + 16));
  EXPECT_EQ(parts.stats.totals.accepted_guesses, 3u + 1 + 15);
  EXPECT_EQ(parts.stats.totals.refused_guesses, 12u + 14);
  const GuessesTold told(parts);
  EXPECT_EQ(told.accepted, (std::vector<int>{1, 2, 3, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17,
                                             18, 19, 20, 21}));
  EXPECT_EQ(told.refused, (std::map<int, int>{{4, 12}, {6, 14}}));
  EXPECT_EQ(parts.stats.totals.generated_tokens, 23u);
}

TEST(GuessedRuns, HaveTheTokensAndLogprobsOfSingleStepsWhateverIsAskedFor) {
  std::mt19937 random(1);
  int accepted = 0;
  int refused = 0;
  for (int i = 0; i < 12; ++i) {  // all combinations of what is drawn by 2, 3 and 4 below
    EngineParts plain(0);
    SequenceRequest request = GreedyRequest(plain);
    request.sampling = {.temperature = i % 3 == 0 ? 0.0f : 0.9f,
                        .top_p = i % 2 == 0 ? 1 : 0.8f,
                        .presence_penalty = i % 4 == 1 ? 1.5f : 0,
                        .frequency_penalty = i % 4 == 1 ? 0.7f : 0,
                        .repetition_penalty = i % 4 == 2 ? 1.3f : 1,
                        .max_tokens = 50,
                        .min_tokens = i,
                        .seed = random(),
                        .ignore_eos = true,
                        .logprobs = 3};
    const std::vector<OutputToken> free = RunWithoutGuesses(request);
    request.sampling.stop_token_ids = {free[30].token_id};
    Script script = ScriptOf(request);
    script.tokens.resize(script.tokens.size() + 20, 7);  // there is no guess at the end
    for (int token = 20; token < 90; ++token) {
      if (random() % 4 == 0) script.lies.insert(token);
    }
    EngineParts parts(i % 2, By(script));
    AddTo(parts, request);
    while (parts.sequences.Find(1) != nullptr || !parts.pipeline.empty()) RunStep(parts);
    ExpectSameTokens(TokensTold(parts), RunWithoutGuesses(request));
    EXPECT_EQ(parts.stats.totals.generated_tokens, TokensTold(parts).size());
    EXPECT_EQ(parts.pool.used_blocks() + parts.pool.reserved_blocks(), 0);
    accepted += static_cast<int>(parts.stats.totals.accepted_guesses);
    refused += static_cast<int>(parts.stats.totals.refused_guesses);
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 100);
}

// The bytes and CRCs of the pages that are full.
std::vector<uint8_t> FullPages(EngineParts& parts, const Sequence& sequence) {
  const KvLayout& layout = parts.cache->layout();
  std::vector<uint8_t> bytes;
  const auto add = [&](const void* data, size_t count) {
    const auto* const first = static_cast<const uint8_t*>(data);
    bytes.insert(bytes.end(), first, first + count);
  };
  for (int block = 0; block < sequence.kv.computed_tokens / layout.block_size; ++block) {
    const int32_t id = sequence.blocks.table[static_cast<size_t>(block)];
    add(parts.cache->Block(id), layout.block_bytes());
    for (int layer = 0; layer < layout.layers; ++layer) {
      add(&parts.cache->PageCrc(id, layer, 0), sizeof(uint32_t));
    }
  }
  return bytes;
}

TEST_F(Guesses, LeaveTheKvAndTheCrcsOfSingleSteps) {
  Sequence& single = AddTo(plain_, GreedyRequest(plain_));
  while (single.kv.computed_tokens < 64) RunStep(plain_);
  for (int token = 23; token < 80; token += 5) script_.lies.insert(token);
  EngineParts parts(0, By(script_));
  Sequence& sequence = AddTo(parts, GreedyRequest(parts));
  while (sequence.kv.computed_tokens < 64) RunStep(parts);
  sequence.kv.computed_tokens = 64;
  EXPECT_GT(parts.stats.totals.refused_guesses, 50u);
  EXPECT_EQ(FullPages(parts, sequence), FullPages(plain_, single));
}

TEST_F(Guesses, BehindAStopTokenAreNeitherToldNorCounted) {
  SequenceRequest request = GreedyRequest(plain_);
  // The first output that is not among those before it.
  int stop = 3;
  while (std::count(script_.tokens.begin() + 20, script_.tokens.begin() + 20 + stop,
                    script_.tokens[20 + static_cast<size_t>(stop)]) > 0) {
    ++stop;
    ASSERT_LT(stop, 15);
  }
  request.sampling.stop_token_ids = {script_.tokens[20 + static_cast<size_t>(stop)]};
  EngineParts parts(0, By(script_));
  AddTo(parts, request);
  RunStep(parts);
  RunStep(parts);
  EXPECT_EQ(parts.TokenIds(), Outputs(stop + 1));
  EXPECT_EQ(TokensTold(parts).back().finish_reason, FinishReason::kStop);
  EXPECT_EQ(parts.stats.totals.generated_tokens, static_cast<uint64_t>(stop + 1));
  EXPECT_EQ(parts.stats.totals.accepted_guesses, static_cast<uint64_t>(stop));
  EXPECT_EQ(GuessesTold(parts).accepted.back(), stop);
  EXPECT_EQ(GuessesTold(parts).refused, (std::map<int, int>{{stop, 15 - stop}}));
  EXPECT_EQ(parts.pool.used_blocks(), 0);
}

TEST_F(Guesses, NeverPassTheLengthOfTheSequence) {
  for (const int max_tokens : {1, 2, 3, 9, 17, 18}) {
    EngineParts parts(0, By(script_));
    AddTo(parts, GreedyRequest(parts, max_tokens));
    while (parts.sequences.Find(1) != nullptr) {
      const Schedule schedule = RunStep(parts);
      const ScheduledTokens& scheduled = schedule.batch.at(0);
      EXPECT_LE(scheduled.first_token + scheduled.row_count(), 20 + max_tokens - 1);
    }
    EXPECT_EQ(parts.TokenIds(), Outputs(max_tokens));
    EXPECT_EQ(TokensTold(parts).back().finish_reason, FinishReason::kLength);
  }
}

TEST_F(Guesses, TakeNoMoreBlocksThanTheTokensThatComeOfThem) {
  std::map<int, std::pair<int, int>> blocks;  // by tokens: used, reserved
  AddTo(plain_, GreedyRequest(plain_));
  const auto held = [](EngineParts& parts) {
    return std::pair(parts.pool.used_blocks(), parts.pool.reserved_blocks());
  };
  // The row of a next token takes its block with the step.
  while (RunStep(plain_), plain_.sequences.Find(1) != nullptr) {
    blocks.try_emplace(plain_.sequences.Find(1)->tokens.count(), held(plain_));
  }
  script_.lies = {30, 31, 32, 33, 34, 47, 50};
  EngineParts parts(0, By(script_));
  Sequence& sequence = AddTo(parts, GreedyRequest(parts));
  for (int i = 0; i < 8; ++i) {
    RunStep(parts);
    const auto [used, reserved] = blocks.at(sequence.tokens.count());
    EXPECT_LE(parts.pool.used_blocks(), used + 1);
    EXPECT_LE(parts.pool.used_blocks() + parts.pool.reserved_blocks(), used + reserved + 1);
    const int needed = (sequence.tokens.count() + 15) / 16;
    EXPECT_LE(sequence.blocks.count(), needed) << "what refused rows had is given back";
  }
  EXPECT_GT(parts.stats.totals.accepted_guesses, 15u);
}

TEST_F(Guesses, AreCutWhereNoBlockIsFreeForThem) {
  EngineParts parts(0, By(script_));
  Sequence& sequence = AddTo(parts, GreedyRequest(parts));
  RunStep(parts);
  ASSERT_EQ(sequence.tokens.count(), 21);
  const auto others = parts.pool.TryReserve(parts.pool.available_blocks());
  ASSERT_EQ(sequence.blocks.reservation.count(), 1);
  const Schedule schedule = RunStep(parts);
  EXPECT_EQ(schedule.batch[0].guess_count(), 32 - 21) << "its head-room is kept for its tokens";
  EXPECT_TRUE(schedule.preempted.empty());
  EXPECT_EQ(sequence.blocks.reservation.count(), 1);
  EXPECT_EQ(parts.TokenIds(), Outputs(1 + 12));
}

TEST_F(Guesses, AreMadeNeitherWhilePausedNorWithoutRowsForThem) {
  EngineParts parts(0, By(script_));
  Sequence& sequence = AddTo(parts, GreedyRequest(parts));
  RunStep(parts);
  sequence.paused = true;
  EXPECT_TRUE(RunStep(parts).batch.empty());
  sequence.paused = false;
  EXPECT_EQ(RunStep(parts, /*row_budget=*/1).batch[0].guess_count(), 0);
  EXPECT_EQ(RunStep(parts, /*row_budget=*/3).batch[0].guess_count(), 2);
}

TEST_F(Guesses, TakeOnlyTheRowsThatAPrefillLeaves) {
  EngineParts parts(0, By(script_));
  AddTo(parts, GreedyRequest(parts));
  RunStep(parts);
  parts.Add(2, 70, 5);
  const Schedule schedule = RunStep(parts, /*row_budget=*/74);
  ASSERT_EQ(schedule.batch.size(), 2u);
  EXPECT_EQ(schedule.batch[0].guess_count(), 3);
  EXPECT_EQ(schedule.batch[1].token_count, 70);
}

TEST_F(Guesses, WaitForTheTokenInFlightThatTheyStandBehind) {
  EngineParts parts(/*steps_ahead=*/1, By(script_));
  const Sequence& sequence = AddTo(parts, GreedyRequest(parts, 30));
  RunStep(parts);  // the prompt
  RunStep(parts);  // a decode behind the first output, which is told now and is good
  EXPECT_EQ(parts.TokenIds(), Outputs(1));
  EXPECT_TRUE(sequence.waits_for_token());
  EXPECT_TRUE(RunStep(parts).batch.empty());
  EXPECT_EQ(parts.TokenIds(), Outputs(2));
  EXPECT_EQ(RunStep(parts).batch[0].guess_count(), 15);
  EXPECT_EQ(parts.TokenIds(), Outputs(2));
  EXPECT_TRUE(RunStep(parts).batch.empty()) << "nobody knows where it goes on";
  EXPECT_EQ(parts.TokenIds(), Outputs(2 + 16));
  while (parts.sequences.Find(1) != nullptr) RunStep(parts);
  EXPECT_EQ(parts.TokenIds(), Outputs(30));
}

// Behind a last guess there is none that the next token would be waited for.
TEST_F(Guesses, InFlightAreWaitedForThoughNoFurtherOneIsKnown) {
  Script script = script_;
  script.tokens.resize(20 + 3);
  EngineParts parts(/*steps_ahead=*/1, By(script));
  AddTo(parts, GreedyRequest(parts, 30));
  for (int step = 0; step < 3; ++step) RunStep(parts);
  EXPECT_EQ(parts.TokenIds(), Outputs(2));
  EXPECT_EQ(RunStep(parts).batch[0].guess_count(), 1);
  EXPECT_TRUE(RunStep(parts).batch.empty()) << "nobody knows where it goes on";
  EXPECT_EQ(parts.TokenIds(), Outputs(2 + 2));
  while (parts.sequences.Find(1) != nullptr) RunStep(parts);
  EXPECT_EQ(parts.TokenIds(), Outputs(30));
}

// Without a clock: nobody tells this guesser how long steps took.
TEST_F(Guesses, StopWhereTheyDoNotPayAndBeginAgainWhereTheyWould) {
  Sequence& sequence = AddTo(plain_, GreedyRequest(plain_));
  RunStep(plain_);
  Guesser guesser(
      {.mode = SpeculationMode::kAuto, .most_samples = 64, .make_proposer = By(script_)},
      plain_.ledger);
  guesser.Continue(sequence);
  const auto guesses_after = [&](bool true_ones, int steps) {
    int guesses = 0;
    for (int i = 0; i < steps; ++i) {
      Schedule schedule;
      schedule.batch.push_back({&sequence, sequence.kv.computed_tokens, 1, true});
      guesser.AddTo(schedule, 128);
      guesses = schedule.batch[0].guess_count();
      const int32_t next = sequence.guesses.next[0];
      guesser.Checked(schedule.batch[0], true_ones ? guesses : 0,
                      {.token_id = true_ones ? next : next + 1});
      guesser.Continue(sequence);
    }
    return guesses;
  };
  EXPECT_GT(guesses_after(false, 1), 0);
  EXPECT_EQ(guesses_after(false, 20), 0);
  EXPECT_GT(guesses_after(true, 20), 4) << "the tokens were what it would have guessed";
}

}  // namespace
}  // namespace baton
