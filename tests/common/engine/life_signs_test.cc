#include "common/engine/life_signs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/common/engine/engine_harness.h"
#include "tests/common/engine/test_sequences.h"

namespace baton {
namespace {

using Mode = SequenceRequest::Mode;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr absl::Time kStart = absl::UnixEpoch();
constexpr absl::Duration kInterval = absl::Seconds(4);

class LifeSignsTest : public testing::Test {
 protected:
  // A sequence that waits; its id goes to told_ with each sign that it gets.
  Sequence& Add(SequenceId id, int choices = 1) {
    SequenceRequest request;
    request.mode = Mode::kLocal;
    request.token_ids.assign(20, 1);
    request.prompt_length = 20;
    request.choices = choices;
    request.on_event = [this, id](const SequenceEvent& event) {
      if (std::holds_alternative<SequenceAlive>(event)) told_.push_back(id);
    };
    return table_.Add(id, TestSequences::Trust(std::move(request)));
  }
  std::vector<SequenceId> ToldAt(absl::Time now) {
    signs_.Give(now);
    return std::exchange(told_, {});
  }

  BlockPool pool_{12};
  StepsInFlight steps_;
  BlockLedger ledger_{{.block_size = 16}, pool_, nullptr, steps_};
  SequenceTable table_{1000, ledger_, steps_};
  LifeSigns signs_{kInterval, kStart, table_};
  std::vector<SequenceId> told_;
};

TEST_F(LifeSignsTest, EverySequenceGetsOneInEachInterval) {
  Add(3);
  Sequence& runs = Add(5);
  ASSERT_TRUE(ledger_.TryStart(runs));
  table_.Admit(runs);
  EXPECT_THAT(ToldAt(kStart + kInterval - absl::Nanoseconds(1)), IsEmpty());
  EXPECT_THAT(ToldAt(kStart + kInterval), ElementsAre(3, 5));
  EXPECT_THAT(ToldAt(kStart + kInterval), IsEmpty());
  // A long step: the next interval counts from the signs that were given.
  EXPECT_THAT(ToldAt(kStart + 3 * kInterval), ElementsAre(3, 5));
  EXPECT_THAT(ToldAt(kStart + 4 * kInterval - absl::Nanoseconds(1)), IsEmpty());
  EXPECT_THAT(ToldAt(kStart + 4 * kInterval), ElementsAre(3, 5));
}

TEST_F(LifeSignsTest, ASequenceThatTheEngineHasNotGetsNone) {
  Add(3);
  Sequence& lost = Add(5);
  table_.Remove(lost);
  EXPECT_THAT(ToldAt(kStart + kInterval), ElementsAre(3));
}

TEST_F(LifeSignsTest, ChoicesThatHavePartedGetOneTogether) {
  Sequence& first = Add(3, /*choices=*/3);
  Add(5);
  ASSERT_TRUE(ledger_.TryStart(first));
  table_.Admit(first);
  Schedule schedule;
  schedule.batch.push_back({&first, 0, first.uncomputed_tokens(), true});
  table_.StepEnqueued(schedule);
  table_.StepDone();
  ASSERT_EQ(table_.Choices(3).size(), 3u);
  EXPECT_THAT(ToldAt(kStart + kInterval), ElementsAre(3, 5));
}

// Signs come with each step here, and at each of its layers.
EngineHarness::Options SignsAllTheTime() {
  EngineHarness::Options options = EngineHarness::SmallOptions();
  options.engine.sign_interval = absl::ZeroDuration();
  options.engine.num_kv_blocks = 8;
  return options;
}

TEST(LifeSigns, ComeForASequenceThatWaitsForMemoryOrForItsHandOffAndForOneThatIsHeld) {
  std::mt19937 random(4);
  EngineHarness harness(SignsAllTheTime());
  int receiving_signs = 0, held_signs = 0, waiting_signs = 0;
  const auto count = [](int& signs) {
    return [&signs](const SequenceEvent& event) {
      signs += std::holds_alternative<SequenceAlive>(event) ? 1 : 0;
    };
  };
  SequenceRequest receives = LocalRequest(RandomTokens(random, 40), Greedy(10));
  receives.mode = Mode::kReceive;
  const SequenceId receiving = harness.Submit(std::move(receives), count(receiving_signs));
  SequenceRequest prefills = LocalRequest(RandomTokens(random, 40), Greedy(1));
  prefills.mode = Mode::kPrefillOnly;
  const SequenceId held = harness.Submit(std::move(prefills), count(held_signs));
  harness.Run();
  const SequenceId waiting =
      harness.Submit(LocalRequest(RandomTokens(random, 100), Greedy(10)), count(waiting_signs));
  harness.Run();
  ASSERT_TRUE(harness.log(receiving).admitted && harness.log(held).finished);
  ASSERT_FALSE(harness.log(waiting).admitted);
  for (int* signs : {&receiving_signs, &held_signs, &waiting_signs}) *signs = 0;
  EXPECT_FALSE(harness.engine().Step()) << "there is nothing to compute";
  EXPECT_GT(receiving_signs, 0);
  EXPECT_GT(held_signs, 0);
  EXPECT_GT(waiting_signs, 0);
  for (const SequenceId id : {receiving, held, waiting}) harness.engine().Release(id);
  harness.Run();
  harness.ExpectNothingHeld();
}

TEST(LifeSigns, ComeInTheMiddleOfAStep) {
  std::mt19937 random(5);
  EngineHarness harness(SignsAllTheTime());
  int signs = 0;
  harness.Submit(LocalRequest(RandomTokens(random, 40), Greedy(1)),
                 [&](const SequenceEvent& event) {
                   signs += std::holds_alternative<SequenceAlive>(event) ? 1 : 0;
                 });
  ASSERT_TRUE(harness.engine().Step());
  EXPECT_EQ(signs, 1 + harness.engine().model_config().layers);
  harness.Run();
}

}  // namespace
}  // namespace baton
