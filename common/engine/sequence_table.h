// The sequences of an engine, from the moment they are added until they are removed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "common/engine/block_ledger.h"
#include "common/engine/checked_sequence.h"
#include "common/engine/schedule.h"
#include "common/engine/sequence.h"
#include "common/engine/steps_in_flight.h"

namespace baton {

// Owns all sequences of an engine and carries out what happens to them: each goes through the
// states of sequence.h here alone, and the ledger gives and takes the blocks that go with them.
//
// Each step goes: Scheduler::Next, then StepEnqueued with the schedule, then StepDone, then
// MarkComputed and SequenceTokens::AddOutput for what the step has computed. In between Add,
// OpenReceive, Commit and Remove change what there is to compute.
//
// Thread rule: one thread, the engine's. Borrows the ledger and the steps, which must outlive it.
class SequenceTable {
 public:
  struct ByArrival {
    bool operator()(const Sequence* a, const Sequence* b) const { return a->arrival < b->arrival; }
  };
  using Line = std::set<Sequence*, ByArrival>;

  // `max_model_len`: the most tokens of a sequence, prompt and output.
  SequenceTable(int max_model_len, BlockLedger& ledger, StepsInFlight& steps);

  // REQUIRES: `id` was never added before.
  Sequence& Add(SequenceId id, CheckedSequence checked);
  // The first living choice of the sequence; null for an unknown id.
  Sequence* Find(SequenceId id);
  // All living choices of all sequences, by id.
  std::vector<Sequence*> All();
  // All living choices of the sequence, ascending.
  std::vector<Sequence*> Choices(SequenceId id);
  // Takes one of the choices that have not parted yet out of the sequence: it will not be computed.
  // REQUIRES: it is one of them and not the last.
  void DropChoice(Sequence& sequence, int choice);

  const Line& waiting() const { return waiting_; }  // sequences in state kWaiting
  const Line& running() const { return running_; }  // those in state kRunning, the paused ones too

  // The sequence has its blocks reserved. It goes on to kReserved, or to the batch if it is
  // computed here. Returns whether this is the first time. REQUIRES: kWaiting.
  bool Admit(Sequence& sequence);
  // Takes the sequence's blocks away; it waits to be computed anew. REQUIRES: kRunning, and no step
  // in flight has it.
  void Preempt(Sequence& sequence);
  // Turns the reservation into blocks (BlockLedger::Open). REQUIRES: kReserved.
  void OpenReceive(Sequence& sequence, std::string kv_numerics);
  // All tokens are in the cache. The choices join the batch, each with its first token, which is
  // the next one to compute. Returns the sequences of the choices in the order of `first_tokens`,
  // one for each choice. REQUIRES: kReceiving, and the grammar allows each of the tokens.
  std::vector<Sequence*> Commit(Sequence& sequence, absl::Span<const int32_t> first_tokens);
  // A step that is done has computed the tokens before `end_token`.
  void MarkComputed(Sequence& sequence, int end_token);
  // Takes the sequence out of the batch; it keeps its blocks. REQUIRES: kRunning.
  void Hold(Sequence& sequence);
  // Removes the sequence, destroys it and gives its blocks back. Where a step in flight has it, it
  // becomes kEnded and StepDone of that step returns it instead.
  void Remove(Sequence& sequence);

  // The step that computes the schedule's batch is in flight from here on; the next schedule comes
  // behind it. Choices whose first tokens it samples part, with one pending output each.
  void StepEnqueued(Schedule& schedule);
  // See StepsInFlight::Done.
  std::vector<StepsInFlight::Leaving> StepDone() { return steps_.Done(); }
  bool InFlight(const Sequence& sequence) const { return steps_.Have(sequence); }

 private:
  void Enter(Sequence& sequence, Sequence::State next);
  std::vector<Sequence*> Part(Sequence& sequence);

  const int max_model_len_;
  BlockLedger& ledger_;
  StepsInFlight& steps_;
  uint64_t next_arrival_ = 0;
  // The living choices of each sequence, ascending; one entry until they part.
  std::map<SequenceId, std::vector<std::unique_ptr<Sequence>>> sequences_;
  Line waiting_;
  Line running_;
};

}  // namespace baton
