// Requests that are held to forms, and the ways in which an engine serves them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "tests/common/engine/engine_harness.h"
#include "tests/common/grammar/tiny_grammars.h"

namespace baton {

struct Way {
  int steps_ahead = 0;
  SpeculationMode speculation = SpeculationMode::kNone;
  absl::Duration patience = absl::InfiniteDuration();  // EngineOptions::form_patience
};

// The last ones make masks on the mask thread: all, or those that take long.
inline std::vector<Way> WaysOfGrammars() {
  return {{0},
          {1},
          {0, SpeculationMode::kNgram},
          {1, SpeculationMode::kNgram},
          {0, SpeculationMode::kAuto},
          {0, SpeculationMode::kNgram, absl::ZeroDuration()},
          {1, SpeculationMode::kNone, absl::ZeroDuration()},
          {0, SpeculationMode::kNgram, absl::Milliseconds(1)},
          {1, SpeculationMode::kNgram, absl::Milliseconds(1)}};
}

inline EngineHarness::Options WithGrammars(const Way& way = {}) {
  EngineHarness::Options options = EngineHarness::SmallOptions();
  options.engine.steps_ahead = way.steps_ahead;
  options.engine.speculation = way.speculation;
  options.engine.form_patience = way.patience;
  options.engine.end_of_generation_ids = TinyEnds();
  return options;
}

inline SamplingParams Drawn(int max_tokens, uint64_t seed) {
  return {.temperature = 1, .max_tokens = max_tokens, .seed = seed, .logprobs = 2};
}

inline SequenceRequest InGrammar(std::vector<int32_t> tokens, const SamplingParams& sampling,
                                 GrammarState grammar) {
  SequenceRequest request = LocalRequest(std::move(tokens), sampling);
  request.grammar = std::move(grammar);
  return request;
}

// Checks that the answer is of the grammar, whole or cut off at its length.
inline void ExpectOfGrammar(GrammarState grammar, const EventLog& log) {
  ASSERT_FALSE(log.tokens.empty());
  const absl::Status status = grammar.Replay(log.token_ids());
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(grammar.IsTerminated(), log.tokens.back().finish_reason == FinishReason::kStop);
}

// What each choice gives by itself, without guesses.
inline std::vector<EventLog> EachAlone(const std::vector<SequenceRequest>& requests) {
  EngineHarness plain(WithGrammars());
  std::vector<EventLog> logs;
  for (const SequenceRequest& request : requests) {
    for (int choice = 0; choice < request.choices; ++choice) {
      SequenceRequest alone = request;
      alone.choice = choice;
      alone.choices = 1;
      logs.push_back(plain.RunAlone(alone));
      if (request.grammar) ExpectOfGrammar(*request.grammar, logs.back());
    }
  }
  return logs;
}

}  // namespace baton
