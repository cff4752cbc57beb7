// An engine whose tokens a draft model guesses: what must not show, and what must.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "common/engine/schedule.h"
#include "tests/common/engine/engine_harness.h"

namespace baton {
namespace {

constexpr const char* kOwn = "tiny-llama-f32.gguf";     // the model itself
constexpr const char* kOther = "tiny-mha-untied.gguf";  // another of the same vocabulary

EngineHarness::Options Drafting(const char* draft, int steps_ahead = 0) {
  EngineHarness::Options options = EngineHarness::SmallOptions();
  options.draft = draft;
  options.engine.speculation = SpeculationMode::kDraft;
  options.engine.steps_ahead = steps_ahead;
  return options;
}

// Greedy, or at random with all that changes the odds.
SamplingParams DraftedSampling(bool greedy, int max_tokens, uint64_t seed) {
  SamplingParams sampling = Greedy(max_tokens);
  sampling.logprobs = 2;
  if (greedy) return sampling;
  sampling.temperature = 1;
  sampling.top_p = 0.2f;
  sampling.presence_penalty = 0.3f;
  sampling.frequency_penalty = 0.2f;
  sampling.repetition_penalty = 1.05f;
  sampling.seed = seed;
  return sampling;
}

struct DraftCase {
  const char* draft;
  int steps_ahead;
};

class DraftSpeculation : public testing::TestWithParam<DraftCase> {};

TEST_P(DraftSpeculation, ChangesNoTokenOfChoicesThatArePreempted) {
  EngineHarness plain(EngineHarness::SmallOptions());
  EngineHarness::Options tight = Drafting(GetParam().draft, GetParam().steps_ahead);
  tight.engine.num_kv_blocks = 16;
  EngineHarness harness(tight);
  std::mt19937 random(1);
  std::vector<SequenceRequest> requests;
  std::vector<SequenceId> ids;
  for (int i = 0; i < 4; ++i) {
    requests.push_back(
        LocalRequest(RandomTokens(random, 17 + 20 * i), DraftedSampling(i % 2 == 0, 60, random())));
    requests.back().choices = 1 + i % 3;
    if (i == 3) requests.back().speculation = SpeculationMode::kAuto;
    ids.push_back(harness.Submit(requests.back()));
  }
  harness.Run();
  for (size_t i = 0; i < requests.size(); ++i) {
    ExpectChoicesAsAlone(harness, ids[i], requests[i], plain);
  }
  const EngineStats stats = harness.engine().Stats();
  EXPECT_GT(stats.preemptions, 0u);
  EXPECT_GT(stats.refused_guesses, 20u);
  EXPECT_GE(stats.accepted_guesses, GetParam().draft == kOwn ? 21u : 0u);
  harness.ExpectNothingHeld();
}

TEST_P(DraftSpeculation, IsAlwaysRightWhereTheModelGuessesItsOwnLikeliestTokens) {
  EngineHarness harness(Drafting(kOwn, GetParam().steps_ahead));
  std::mt19937 random(2);
  std::vector<SequenceId> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(harness.Submit(LocalRequest(RandomTokens(random, 30 + 50 * i), Greedy(64))));
  }
  harness.Run();
  for (const SequenceId id : ids) {
    EXPECT_EQ(harness.log(id).refused_guesses, 0);
    EXPECT_GT(harness.log(id).accepted_guesses, 40) << "of 64 tokens";
  }
  harness.ExpectNothingHeld();
}

TEST_P(DraftSpeculation, IsForARequestToChooseAndNeedsADraftModel) {
  std::mt19937 random(3);
  SequenceRequest request = LocalRequest(RandomTokens(random, 20), Greedy(40));
  const auto guesses = [&](const char* draft, SpeculationMode engine, SpeculationMode asked) {
    EngineHarness::Options options = Drafting(draft, GetParam().steps_ahead);
    options.engine.speculation = engine;
    EngineHarness harness(options);
    request.speculation = asked;
    const EventLog log = harness.RunAlone(request);
    EXPECT_TRUE(log.finished) << log.failure;
    return log.accepted_guesses + log.refused_guesses;
  };
  using Asked = SpeculationMode;
  const char* const draft = GetParam().draft;
  EXPECT_GT(guesses(draft, Asked::kAuto, Asked::kDraft), 20);
  EXPECT_EQ(guesses(draft, Asked::kDraft, Asked::kNone), 0);
  EXPECT_EQ(guesses(draft, Asked::kNone, Asked::kDraft), 0);
  EXPECT_EQ(guesses("", Asked::kAuto, Asked::kDraft), 0);
}

// The draft model knows the prompt by the time its KV has arrived.
TEST_P(DraftSpeculation, CatchesUpWhileTheHandOffIsWaitedFor) {
  EngineHarness harness(Drafting(GetParam().draft, GetParam().steps_ahead));
  std::mt19937 random(4);
  SequenceRequest request = LocalRequest(RandomTokens(random, 150), Greedy(10));
  request.mode = SequenceRequest::Mode::kReceive;
  const SequenceId id = harness.Submit(request);
  const auto draft_blocks_after_a_step = [&] {
    harness.engine().Step();
    return harness.engine().Stats().draft_used_blocks;
  };
  EXPECT_EQ(draft_blocks_after_a_step(), kChunkTokens / 16);
  harness.engine().OpenReceive(id, "");
  EXPECT_EQ(draft_blocks_after_a_step(), 2 * kChunkTokens / 16);
  harness.Run();
  EXPECT_EQ(harness.engine().Stats().draft_used_blocks, 10);
  EXPECT_TRUE(harness.log(id).granted);
  harness.engine().Release(id);
  harness.Run();
  harness.ExpectNothingHeld();
}

// Eight choices share the blocks of their prompt, but not those of the draft model.
TEST_P(DraftSpeculation, ChangesNothingWhereTheDraftModelsCacheIsFull) {
  EngineHarness::Options options = Drafting(GetParam().draft, GetParam().steps_ahead);
  options.engine.num_kv_blocks = 21;
  options.engine.max_num_seqs = 128;  // so that there is room for guesses of each choice
  EngineHarness harness(options);
  EngineHarness plain(EngineHarness::SmallOptions());
  std::mt19937 random(5);
  SequenceRequest request = LocalRequest(RandomTokens(random, 90), DraftedSampling(false, 24, 7));
  request.sampling.top_p = 1;
  request.choices = 8;
  const SequenceId id = harness.Submit(request);
  int most_used = 0;
  while (harness.engine().Step()) {
    most_used = std::max(most_used, harness.engine().Stats().draft_used_blocks);
  }
  EXPECT_EQ(most_used, 21);
  ExpectChoicesAsAlone(harness, id, request, plain);
  harness.ExpectNothingHeld();
}

INSTANTIATE_TEST_SUITE_P(DraftsAndStepsAhead, DraftSpeculation,
                         testing::Values(DraftCase{kOwn, 0}, DraftCase{kOwn, 1},
                                         DraftCase{kOther, 0}, DraftCase{kOther, 1}));

}  // namespace
}  // namespace baton
