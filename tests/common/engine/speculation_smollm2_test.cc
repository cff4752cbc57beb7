// Guesses on SmolLM2: the tokens and log probabilities are those of an engine that guesses nothing,
// bit for bit. Needs BATON_TEST_MODEL.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/common/engine/engine_harness.h"
#include "tests/common/engine/smollm2_engine.h"

namespace baton {
namespace {

// A passage of words at random, again and again: the model copies it, until what it samples leads
// it astray.
std::vector<SequenceRequest> Requests(int count) {
  std::mt19937 random(7);
  std::vector<SequenceRequest> requests;
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> passage;
    for (int token = 0; token < 12 + i; ++token) {
      passage.push_back(static_cast<int32_t>(100 + random() % 20000));
    }
    std::vector<int32_t> prompt = passage;
    prompt.insert(prompt.end(), passage.begin(), passage.end());
    prompt.insert(prompt.end(), passage.begin(), passage.begin() + 4);
    SamplingParams sampling = {.temperature = i % 2 == 0 ? 0.0f : 1.0f,
                               .max_tokens = 40,
                               .seed = random(),
                               .ignore_eos = true,
                               .logprobs = 3};
    if (i % 4 == 3) {
      sampling.top_p = 0.9f;
      sampling.presence_penalty = 0.4f;
      sampling.frequency_penalty = 0.2f;
      sampling.repetition_penalty = 1.05f;
    }
    requests.push_back(LocalRequest(prompt, sampling));
  }
  return requests;
}

class SmolLm2Speculation : public testing::Test {
 protected:
  void SetUp() override {
    if (SmolLm2Path().empty()) GTEST_SKIP() << "set BATON_TEST_MODEL to SmolLM2's GGUF file";
  }

  // What each choice of the requests is told, when all of them run at once.
  static std::vector<EventLog> RunAll(EngineHarness& harness,
                                      const std::vector<SequenceRequest>& requests) {
    std::vector<SequenceId> ids;
    for (const SequenceRequest& request : requests) ids.push_back(harness.Submit(request));
    harness.Run();
    std::vector<EventLog> logs;
    for (const SequenceId id : ids) {
      logs.insert(logs.end(), harness.logs(id).begin(), harness.logs(id).end());
    }
    return logs;
  }

  static void ExpectAsWithoutGuesses(const std::vector<EventLog>& logs,
                                     const std::vector<EventLog>& expected) {
    ASSERT_EQ(logs.size(), expected.size());
    int accepted = 0;
    int refused = 0;
    for (size_t i = 0; i < logs.size(); ++i) {
      SCOPED_TRACE(i);
      EXPECT_TRUE(logs[i].finished) << logs[i].failure;
      ExpectSameTokens(logs[i].tokens, expected[i].tokens);
      accepted += logs[i].accepted_guesses;
      refused += logs[i].refused_guesses;
    }
    EXPECT_GE(accepted, 20);
    EXPECT_GE(refused, 20);
  }
};

TEST_F(SmolLm2Speculation, ChangesNoBitOfWhatIsTold) {
  std::vector<SequenceRequest> requests = Requests(16);
  requests.back().choices = 3;
  EngineHarness plain(SmolLm2(SpeculationMode::kNone));
  const std::vector<EventLog> expected = RunAll(plain, requests);
  {
    SCOPED_TRACE("each alone, and two again from the prefix cache");
    EngineHarness guessing(SmolLm2(SpeculationMode::kNgram));
    std::vector<EventLog> logs;
    std::vector<EventLog> expected_of_each;
    for (const size_t i : {0, 0, 1, 3, 3}) {
      logs.push_back(guessing.RunAlone(requests[i]));
      expected_of_each.push_back(expected[i]);
    }
    ExpectAsWithoutGuesses(logs, expected_of_each);
    EXPECT_GT(guessing.engine().Stats().prompt_tokens_cached, 0u);
  }
  {
    SCOPED_TRACE("all at once, where blocks lack");
    EngineHarness guessing(SmolLm2(SpeculationMode::kNgram, /*blocks=*/48));
    ExpectAsWithoutGuesses(RunAll(guessing, requests), expected);
    EXPECT_GT(guessing.engine().Stats().preemptions, 0u);
  }
  {
    SCOPED_TRACE("a step ahead, as many as pay");
    EngineHarness::Options options = SmolLm2(SpeculationMode::kAuto);
    options.engine.steps_ahead = 1;
    EngineHarness guessing(options);
    requests.resize(4);
    for (SequenceRequest& request : requests) request.speculation = SpeculationMode::kNgram;
    ExpectAsWithoutGuesses(RunAll(guessing, requests), {expected.begin(), expected.begin() + 4});
  }
}

}  // namespace
}  // namespace baton
