// An engine's parts whose guesses a script says.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/common/engine/engine_parts.h"

namespace baton {

// What a proposer knows of a sequence: all its tokens, and where to say something else.
struct Script {
  std::vector<int32_t> tokens;
  std::set<int> lies;  // indices of tokens
};

class ScriptedProposer final : public Proposer {
 public:
  explicit ScriptedProposer(const Script& script) : script_(script) {}

  std::vector<int32_t> Propose(absl::Span<const int32_t> token_ids, int most) override {
    std::vector<int32_t> proposed;
    for (int i = static_cast<int>(token_ids.size());
         i < static_cast<int>(script_.tokens.size()) && static_cast<int>(proposed.size()) < most;
         ++i) {
      const int32_t token = script_.tokens[static_cast<size_t>(i)];
      proposed.push_back(script_.lies.count(i) > 0 ? (token + 1) % 256 : token);
    }
    return proposed;
  }

 private:
  const Script& script_;
};

inline EngineParts::MakeProposer By(const Script& script) {
  return [&script] { return std::make_unique<ScriptedProposer>(script); };
}

// Chooses a step with guesses and runs it.
inline Schedule RunStep(EngineParts& parts, int row_budget = 128) {
  Schedule schedule = parts.scheduler.Next(row_budget);
  parts.guesser.AddTo(schedule, row_budget);
  const Schedule chosen = schedule;
  if (schedule.batch.empty()) {
    parts.pipeline.ApplyUntil(0);
  } else {
    parts.pipeline.Run(std::move(schedule));
  }
  return chosen;
}

inline SequenceRequest GreedyRequest(EngineParts& parts, int max_tokens = 60) {
  return parts.Request(20, max_tokens, SequenceRequest::Mode::kLocal);
}

inline Sequence& AddTo(EngineParts& parts, SequenceRequest request) {
  request.on_event = [&parts](const SequenceEvent& event) { parts.events.push_back(event); };
  return parts.sequences.Add(1, TestSequences::Trust(std::move(request)));
}

}  // namespace baton
