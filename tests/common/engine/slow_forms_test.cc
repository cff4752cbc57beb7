// Forms whose masks take longer than an engine's step may wait.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/common/engine/form_requests.h"

namespace baton {
namespace {

class SlowForms : public testing::TestWithParam<Way> {
 protected:
  EngineHarness::Options Options() const { return WithGrammars(GetParam()); }
};

SequenceRequest CostlyRequest(std::mt19937& random, int max_tokens) {
  SequenceRequest request = InGrammar(RandomTokens(random, 20), Drawn(max_tokens, random()),
                                      TinyGrammar(CostlyGrammar()));
  for (const int32_t end : TinyEnds()) request.sampling.logit_bias[end] = -100;
  return request;
}

// Outputs of the costly grammar, of which the last masks take some milliseconds.
constexpr int kCostlyTokens = 30;

std::vector<SequenceRequest> CostlyRequests() {
  std::mt19937 random(9);
  std::vector<SequenceRequest> requests;
  for (const int choices : {1, 3}) {
    requests.push_back(CostlyRequest(random, kCostlyTokens));
    requests.back().choices = choices;
  }
  return requests;
}

TEST_P(SlowForms, GiveTheAnswersOfAnEngineThatWaitsForEachMask) {
  const std::vector<SequenceRequest> requests = CostlyRequests();
  static const std::vector<EventLog> expected = EachAlone(requests);
  EngineHarness harness(Options());
  std::vector<SequenceId> ids;
  for (const SequenceRequest& request : requests) ids.push_back(harness.Submit(request));
  harness.Run();
  size_t next = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    for (const EventLog& log : harness.logs(ids[i])) {
      EXPECT_TRUE(log.finished) << log.failure;
      ExpectSameTokens(log.tokens, expected[next++].tokens);
    }
  }
  // What they left in the prefix cache is right.
  SequenceRequest after = LocalRequest(requests[0].token_ids, Drawn(5, 1));
  const std::vector<int32_t> answer = expected[0].token_ids();
  after.token_ids.insert(after.token_ids.end(), answer.begin(), answer.end());
  after.prompt_length = static_cast<int>(after.token_ids.size());
  const uint64_t cached = harness.engine().Stats().prompt_tokens_cached;
  const EventLog log = harness.RunAlone(after);
  EXPECT_GE(harness.engine().Stats().prompt_tokens_cached, cached + 32);
  ExpectSameTokens(log.tokens, EngineHarness(WithGrammars()).RunAlone(after).tokens);
  harness.ExpectNothingHeld();
}

TEST_P(SlowForms, WhoseFormCostsTooMuchEndsAloneAfterTheTokensThatItHas) {
  EngineHarness harness(Options());
  std::mt19937 random(8);
  const SequenceRequest other = LocalRequest(RandomTokens(random, 9), Drawn(20, 1));
  SequenceRequest costly = CostlyRequest(random, 200);
  costly.grammar->SetBudget({.call = absl::Milliseconds(10), .answer = absl::InfiniteDuration()});
  const SequenceId other_id = harness.Submit(other);
  const SequenceId id = harness.Submit(costly);
  harness.Run();
  const EventLog& log = harness.log(id);
  EXPECT_TRUE(absl::IsInvalidArgument(log.failure)) << log.failure;
  EXPECT_NE(log.failure.message().find("more than 10ms of CPU time for a token"), std::string::npos)
      << log.failure;
  EXPECT_FALSE(log.finished);
  ExpectSameTokens(harness.log(other_id).tokens, harness.RunAlone(other).tokens);

  // An undisturbed answer begins with the same tokens.
  costly.grammar = TinyGrammar(CostlyGrammar());
  costly.sampling.max_tokens = static_cast<int>(log.tokens.size()) + 1;
  std::vector<OutputToken> undisturbed = harness.RunAlone(costly).tokens;
  undisturbed.resize(std::min(undisturbed.size(), log.tokens.size()));
  ExpectSameTokens(log.tokens, undisturbed);
  harness.ExpectNothingHeld();
}

// A request that goes on behind so many outputs that its next mask takes far longer than others take
// to their ends.
SequenceRequest EndlessRequest(std::mt19937& random) {
  SequenceRequest request = CostlyRequest(random, 9);
  const std::vector<int32_t> outputs = TinyTokens(std::string(150, 'a'));
  request.token_ids.insert(request.token_ids.end(), outputs.begin(), outputs.end());
  request.grammar->SetBudget(
      {.call = absl::InfiniteDuration(), .answer = absl::InfiniteDuration()});
  return request;
}

TEST(MasksUnderWay, HoldUpNobodyElseAndEndWithTheirSequence) {
  for (const int steps_ahead : {0, 1}) {
    for (const bool isolate : {false, true}) {
      EngineHarness harness(WithGrammars({steps_ahead, {}, absl::ZeroDuration()}));
      std::mt19937 random(11);
      SequenceRequest endless = EndlessRequest(random);
      endless.isolate = isolate;
      const SequenceId id = harness.Submit(endless);
      std::vector<SequenceId> others;
      for (int i = 0; i < 3; ++i) {
        others.push_back(harness.Submit(LocalRequest(RandomTokens(random, 9), Drawn(20, 1))));
      }
      const auto have_ended = [&] {
        return std::all_of(others.begin(), others.end(),
                           [&](SequenceId other) { return harness.log(other).ended(); });
      };
      while (!have_ended()) harness.engine().Step();
      const EngineStats stats = harness.engine().Stats();
      EXPECT_EQ(stats.awaited_masks, 1);
      EXPECT_EQ(stats.runnable_sequences, 0) << "nobody takes the engine for stuck";
      EXPECT_TRUE(harness.log(id).tokens.empty());
      harness.engine().Release(id);
      harness.Run();
      EXPECT_TRUE(harness.log(id).released);
      harness.ExpectNothingHeld();
    }
  }
}

TEST(MasksUnderWay, EndWithTheirEngine) {
  EngineHarness harness(WithGrammars({0, {}, absl::ZeroDuration()}));
  std::mt19937 random(12);
  harness.Submit(EndlessRequest(random));
  while (harness.engine().Stats().awaited_masks == 0) harness.engine().Step();
}

INSTANTIATE_TEST_SUITE_P(Ways, SlowForms, testing::ValuesIn(WaysOfGrammars()));

}  // namespace
}  // namespace baton
