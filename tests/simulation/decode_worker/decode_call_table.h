// The Decode calls that a simulated decode worker has, and the real fence that tells their attempts
// apart.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "baton/internal/v1/decode.pb.h"
#include "decode_worker/attempt_fence.h"
#include "tests/simulation/decode_worker/decode_blocks.h"
#include "tests/simulation/network/control_network.h"

namespace baton {

// A choice that decodes: a sequence of its own.
struct SimDecodeChoice {
  uint64_t order = 0;  // order of arrival
  SimHolding held;
  int decoded_tokens = 0;        // beyond the attempt's own
  std::vector<int32_t> outputs;  // outputs that it has given
  SimGrammar grammar;            // behind its outputs
  bool ended = false;            // by its last output
  Forgers forgers = 0;           // forgers on whose KV it rests
  bool preempted = false;
  bool was_preempted = false;
  bool stepping = false;  // a step is on its way
};

struct SimDecodeCall {
  SimAttempt attempt;
  uint64_t order = 0;                          // order of arrival
  bool local = false;                          // its prompt is computed here
  std::set<uint32_t> going;                    // choices that have not ended
  std::map<uint32_t, SimDecodeChoice> parted;  // choices that go on alone after the commit
  SimHolding held;                             // until they part
  int start_token = 0;                         // tokens before it were there when it was granted
  int computed_tokens = 0;                     // computed tokens of a local prompt
  Forgers forgers = 0;                         // forgers on whose KV its computed tokens rest
  bool lacks_blocks = false;                   // its next chunk waits for them
  bool accepted = false;
  bool granted = false;
  bool committed = false;  // decodes
  bool call_over = false;  // the router's
  bool cancelled = false;
  bool failed = false;
  bool released = false;
  bool distrusted = false;  // it may rest on KV that proved to be wrong
  bool paused = false;
};

class DecodeCallTable {
 public:
  DecodeCallTable(Sim& sim, ControlNetwork& control) : sim_(sim), control_(control) {}

  void Boot() { fence_.emplace(4); }
  void Crash() { calls_.clear(); }

  AttemptFence& fence() { return *fence_; }
  std::map<SimAttemptId, SimDecodeCall>& calls() { return calls_; }
  const std::map<SimAttemptId, SimDecodeCall>& calls() const { return calls_; }
  // Null: there is none, or it has ended.
  SimDecodeCall* Find(SimAttemptId id);
  SimDecodeChoice* FindChoice(SimAttemptId id, uint32_t number);

  bool Forgotten(const SimDecodeCall& call) const {
    return call.attempt.forgotten_at <= sim_.queue.now();
  }
  // Answers the router, unless its call is over or forgotten.
  void Tell(const SimDecodeCall& call, const internal::v1::DecodeResponse& response);
  // The attempt has ended, and the call with it.
  void Erase(SimAttemptId id);

 private:
  Sim& sim_;
  ControlNetwork& control_;
  std::optional<AttemptFence> fence_;
  std::map<SimAttemptId, SimDecodeCall> calls_;
};

}  // namespace baton
