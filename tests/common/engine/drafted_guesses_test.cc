// When a draft model is asked for guesses, and what it catches up with.
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "common/engine/guesser.h"
#include "tests/common/engine/engine_harness.h"
#include "tests/common/engine/engine_parts.h"
#include "tests/common/engine/guessing_parts.h"

namespace baton {
namespace {

class DraftedGuesses : public testing::Test {
 protected:
  std::unique_ptr<DraftModel> LoadDraft() {
    auto model = PartOrDie(
        Transformer::Load(PartOrDie(GgufFile::Open(BATON_TEST_DATA "/tiny/tiny-llama-f32.gguf")),
                          *backend_, [](double) {}));
    return PartOrDie(DraftModel::Create(std::move(model), *backend_,
                                        {.block_size = 16, .num_blocks = 8, .most_sequences = 4}));
  }

  const std::unique_ptr<Backend> backend_ = PartOrDie(MakeBackend({.device = "cpu", .threads = 1}));
};

TEST_F(DraftedGuesses, CatchUpWithTheRowsThatAStepLeavesOfItsBudget) {
  const auto draft = LoadDraft();
  EngineParts parts(/*steps_ahead=*/0);
  Guesser guesser({.mode = SpeculationMode::kDraft,
                   .most_samples = 64,
                   .make_proposer = {},
                   .draft = draft.get()},
                  parts.ledger);
  Sequence* const sequence = &AddTo(parts, parts.Request(100, 20, SequenceRequest::Mode::kLocal));
  Schedule schedule = parts.scheduler.Next(kChunkTokens);
  ASSERT_EQ(schedule.batch[0].token_count, kChunkTokens);
  const auto known_after_a_budget_of = [&](int rows) {
    guesser.AddTo(schedule, rows);
    guesser.CatchUp({&sequence, 1});
    return static_cast<int>(sequence->guesses.draft_kv.tokens.size());
  };
  EXPECT_EQ(known_after_a_budget_of(kChunkTokens), 0) << "the prompt takes all";
  EXPECT_EQ(known_after_a_budget_of(kChunkTokens + 10), 10);
  EXPECT_EQ(known_after_a_budget_of(1000), 10 + kChunkTokens);
}

// What a draft takes is measured; how long steps took is told.
TEST_F(DraftedGuesses, AreAskedForWhereTheyTakeLessTimeThanTheySave) {
  const auto draft = LoadDraft();
  EngineParts parts(/*steps_ahead=*/0);
  Sequence& sequence = AddTo(parts, GreedyRequest(parts));
  RunStep(parts);
  const Script nothing = {};
  Guesser guesser({.mode = SpeculationMode::kAuto,
                   .most_samples = 64,
                   .make_proposer = By(nothing),
                   .draft = draft.get()},
                  parts.ledger);
  const auto guesses_after_a_step_of = [&](absl::Duration duration) {
    Schedule schedule;
    schedule.batch.push_back({&sequence, sequence.kv.computed_tokens, 1, true});
    guesser.StepDone(schedule, duration);
    guesser.Continue(sequence);
    guesser.AddTo(schedule, 128);
    return schedule.batch[0].guess_count();
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_GT(guesses_after_a_step_of(absl::ZeroDuration()), 0) << "nobody knows better";
  }
  EXPECT_EQ(guesses_after_a_step_of(absl::Nanoseconds(1)), 0);
  EXPECT_GT(guesses_after_a_step_of(absl::Hours(1)), 0);
}

}  // namespace
}  // namespace baton
