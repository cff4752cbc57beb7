// The engine of a simulated decode worker: the choices of its calls part after the commit and
// decode, step by step. When there are no blocks for a step, the youngest choice gives way. A step
// may have rows of guessed tokens, and gives a token more than guesses came true.
#pragma once

#include <functional>
#include <vector>

#include "tests/simulation/decode_worker/decode_call_table.h"
#include "tests/simulation/worker_core.h"

namespace baton {

class DecodeEngine {
 public:
  // `choice_ended` is told when a choice has its last token.
  DecodeEngine(Sim& sim, WorkerCore& core, DecodeBlocks& blocks, DecodeCallTable& table,
               std::function<void(SimAttemptId, uint32_t choice)> choice_ended);

  // Blocks that a call's tokens need, with head-room for each choice that goes on.
  int BlocksToStart(const SimDecodeCall& call) const;
  // Whether a sequence of another call has to be alone in the batch.
  bool MustWait(SimAttemptId id) const;

  // Computes the chunk's tokens of a choice, in the blocks that it has and those that it takes;
  // whoever forged what they see is added to `forgers`. False if a block is lacking for now.
  bool ComputeChunk(const SimAttempt& attempt, uint32_t number, SimHolding& held, TokenRange chunk,
                    Forgers& forgers);
  // The KV of the attempt's tokens is there: each choice goes on with its own first token.
  void BeginDecoding(SimAttemptId id);
  // The choice's next step, if there is to be one and none is on its way.
  void Schedule(SimAttemptId id, uint32_t number);
  // Gives back what a choice has that ended while others go on.
  void DropChoice(SimDecodeCall& call, uint32_t number);
  // Blocks came back: those that gave way go on, the first of them first.
  void GoOnWithPreempted();

 private:
  // Rows of a step behind that of the last token, and how many of them come true.
  struct Guesses {
    int count = 0;
    int accepted = 0;
    bool took_block = false;
  };

  void Part(SimDecodeCall& call);
  // The KV of a choice's first tokens has come from elsewhere.
  void NoteForgers(SimDecodeCall& call, uint32_t number, int tokens);
  void CheckTrusted(SimAttemptId id, const SimDecodeChoice& choice) const;
  // The output that follows `tokens` tokens of a choice. Wrong if `forgers` forged some of them.
  internal::v1::OutputToken Give(SimDecodeCall& call, uint32_t number, int tokens, Forgers forgers);
  void Step(SimAttemptId id, uint32_t number);
  Guesses Guess(const SimDecodeCall& call, SimDecodeChoice& choice, int tokens);
  bool Kills(const SimDecodeCall& call, uint32_t number, int tokens, int accepted) const;
  void Compute(const SimDecodeCall& call, uint32_t number, int tokens, const Guesses& guesses);
  void GiveRun(SimDecodeCall& call, uint32_t number, int tokens, const Guesses& guesses);
  void CheckMayDecode(const SimDecodeChoice& choice, int first_token, int end_token);
  bool HasRoom(SimDecodeCall& call, SimDecodeChoice& choice, int tokens);
  SimDecodeChoice& PreemptYoungest(SimDecodeCall& call);
  void Preempt(SimDecodeCall& call, uint32_t number);
  bool Recompute(SimDecodeCall& call, uint32_t number);

  Sim& sim_;
  WorkerCore& core_;
  DecodeBlocks& blocks_;
  DecodeCallTable& table_;
  const std::function<void(SimAttemptId, uint32_t choice)> choice_ended_;
};

}  // namespace baton
