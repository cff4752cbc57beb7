// Decides what each step computes: continuous batching, chunked prefill, preemption.
#pragma once

#include <cstdint>
#include <vector>

#include "common/engine/block_ledger.h"
#include "common/engine/schedule.h"
#include "common/engine/sequence_table.h"

namespace baton {

// Chooses the batch of each step, and with it who is admitted and who is preempted. The sequence
// table carries that out, and the block ledger gives the blocks.
//
// The policy. Every decision among sequences goes by the order of arrival:
//  * Decodes. Every decode gets one row. The rest of the row budget, at least kChunkTokens rows,
//    goes to prefill chunks, so that decodes never starve prefills. A step has at most max_num_seqs
//    sequences, the oldest.
//  * Admission. Blocks are reserved strictly first come, first served: a sequence that cannot get
//    its blocks stops all behind it. A sequence that is computed here starts, and takes blocks for
//    all its tokens, when there is also a place in the batch. Lack of a place does not stop
//    reservations for sequences that are computed elsewhere. The modes that decode reserve one more
//    block as head-room.
//  * Preemption. A decode that needs a block when none is free preempts a sequence: a paused one
//    before the others, and among these the youngest, which may be the decode itself. The preempted
//    sequence waits for blocks at its place in the order of arrival and is recomputed. Sequences
//    whose blocks a peer reads or writes (kPrefillOnly; kReceive before Commit) are never
//    preempted. Where only one sequence could be preempted, it keeps its blocks and sits the step
//    out: the others end when their peers are done.
//  * Choices. A sequence of several choices takes a place in the batch for each of them. It
//    reserves head-room for each, and a block for each further choice's copy of a last block that
//    is not full. When the choices part they share every full block. The copy is made when a choice
//    first writes into it.
//  * Isolation. A running `isolate` sequence is alone in the batch until it ends or pauses. Others
//    run only in the steps that it sits out, and start only in those in which it waits for a mask.
//  * Prefix cache. Whole blocks enter it as soon as their K and V are there (received ones at
//    Commit). A sequence begins behind the longest prefix found in it. A sequence that is computed
//    here looks when it gets its blocks, one that is computed elsewhere when it is opened. So a
//    preempted sequence finds most of its blocks again unless another sequence needed them.
//  * Steps ahead. A step may be asked for before the tokens of the last one are known. Its decodes
//    continue behind pending outputs. A sequence whose guesses are in flight, or that has good ones
//    for what comes behind its pending output, or whose grammar has to know that output, sits the
//    step out. A block comes back no sooner than the last step that may touch it is done.
//  * Masks. A sequence whose next mask is made before the step (MasksAhead) sits steps out until it
//    is there, but for chunks of its prompt before the last one.
//  * Resumption. The pages that a broken hand-off received are retained for the next attempt at the
//    same request, which continues behind them, in the middle of a block too.
//
// Thread rule: one thread, the engine's. Borrows the sequences and the ledger, which must outlive
// it.
class Scheduler {
 public:
  // `max_num_seqs`: the most sequences in one step. `ledger` is that of the sequences.
  Scheduler(int max_num_seqs, SequenceTable& sequences, BlockLedger& ledger);

  // Whether Next might preempt. If so, no step may be in flight when Next is called.
  bool MayPreempt() const;
  // The next step's batch, at most max(row_budget, decodes + kChunkTokens) rows.
  Schedule Next(int row_budget);

  struct Counts {
    int waiting = 0;             // sequences to be admitted, or recomputed after a preemption
    int running = 0;             // sequences in the batch that are not paused
    int runnable = 0;            // running ones that did not sit out for lack of a block or a mask
    int64_t waiting_tokens = 0;  // tokens to be prefilled here
  };
  Counts CountSequences() const;

 private:
  int PlacesOf(const Sequence& sequence) const;
  std::vector<Sequence*> BatchMembers(const Sequence* without = nullptr) const;
  // The rows that are left for sequences to be admitted.
  int ScheduleMembers(const std::vector<Sequence*>& members, int row_budget, Schedule& schedule);
  int ScheduleDecodes(const std::vector<Sequence*>& members, Schedule& schedule);
  int SchedulePrefills(const std::vector<Sequence*>& members, int room, Schedule& schedule);
  void Admit(int places, int room, Schedule& schedule);
  int ScheduleChunk(Sequence& sequence, int room, Schedule& schedule);
  bool GetBlocksForNextToken(Sequence& sequence, Schedule& schedule);
  Sequence* ChooseVictim() const;

  const int max_num_seqs_;
  SequenceTable& sequences_;
  BlockLedger& ledger_;
  int sitting_out_ = 0;  // sequences that the last schedule left out for lack of a block or a mask
};

}  // namespace baton
