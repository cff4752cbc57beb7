// Decides what each step computes and who holds which blocks: continuous batching, chunked prefill,
// preemption.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "common/engine/sequence.h"
#include "common/kv/block_pool.h"
#include "common/kv/prefix_cache.h"
#include "common/kv/retained_prefixes.h"

namespace baton {

// Prefill chunks end on multiples of this many tokens, the last excepted.
inline constexpr int kChunkTokens = 64;

struct SchedulerOptions {
  int max_num_seqs = 0;  // sequences in one step
  int block_size = 0;    // tokens
  int max_model_len = std::numeric_limits<int>::max();
  RetainedPrefixes::Bounds retained = {};
};

// Consecutive tokens of one sequence to compute in a step.
struct ScheduledTokens {
  Sequence* sequence = nullptr;
  int first_token = 0;
  int token_count = 0;
  bool produces_token = false;  // these are the last it has
  // The other choices, each as a sequence of its own from here on: set when the step is enqueued
  // that makes their first tokens.
  std::vector<Sequence*> parted = {};
  int end_token() const { return first_token + token_count; }
};

struct BlockCopy {
  int32_t from = 0;
  int32_t to = 0;
};

struct Schedule {
  std::vector<Sequence*> preempted;
  std::vector<Sequence*> admitted;  // for the first time
  std::vector<BlockCopy> copies;    // before the batch
  std::vector<ScheduledTokens> batch;
};

// The policy, in order of arrival everywhere:
//  * Every decode gets one row. The rest of the row budget goes to prefill chunks, at least one of
//  kChunkTokens, so that
//    decodes never starve prefills. At most max_num_seqs sequences, the oldest, are in a step.
//  * Blocks are promised to those who wait for them strictly first come first served: whoever
//  cannot have his stops all
//    behind him. Sequences computed here start, and take blocks for all their tokens, when there is
//    also a place in the batch; lack of a place does not stop promises for sequences that are
//    computed elsewhere. Decoding modes are promised one more block as head-room.
//  * A decode that needs a block when none is free preempts: paused sequences first, the youngest
//  of them first, then
//    the youngest; it may be itself. The preempted waits for its blocks by its arrival and is
//    recomputed. Sequences whose blocks a peer reads or writes (kPrefillOnly; kReceive before
//    Commit) are never preempted. When it is the only one that could be, it keeps its blocks and
//    sits the step out: those others end by their peers.
//  * A sequence of several choices takes a place in the batch for each of them, and is promised
//  head-room for each, and a block for its copy of a last block that is not full. When they part
//  they share every full block; the copy is made when a choice first writes into it.
//  * A running `isolate` sequence is alone in the batch until it ends or pauses, but for steps that
//  it sits out.
//  * Whole blocks go to the prefix cache as soon as their K and V are there (received ones at
//  Commit), and a sequence begins behind the longest prefix found in it: one computed here when it
//  is given its blocks, one computed elsewhere when it is opened. So what was preempted finds most
//  of its blocks again unless they were needed.
//  * A step may be asked for before the last one's tokens are known: its decodes go on behind
//  outputs that are pending. Blocks come back no sooner than the last step that may touch them is
//  done.
//  * What a hand-off that broke had received is retained for the next attempt at the same request,
//  which goes on behind it, in the middle of a block too.
//
// Thread rule: one thread. Borrows the pool and the prefix cache.
class Scheduler {
 public:
  // `prefix_cache`, of the same pool and block size; null: nothing is shared.
  Scheduler(const SchedulerOptions& options, BlockPool& pool, PrefixCache* prefix_cache);
  ~Scheduler();

  // Most blocks that a sequence waits for at once. Its full length must fit in the pool, or it may
  // never run.
  int BlocksToStart(const Sequence& sequence) const;

  Sequence& Add(SequenceId id, SequenceRequest request);
  Sequence* Find(SequenceId id);  // the first of its choices that lives; null for an unknown id
  std::vector<Sequence*> Choices(SequenceId id);  // all that live
  // One of the choices that have not parted yet will not be computed. REQUIRES: it is not the last.
  void DropChoice(Sequence& sequence, int choice);

  // Turns the promise into blocks for all tokens; head-room stays promised. The first cached_tokens
  // of them are held: their blocks may be others' too, all from there on are the sequence's alone.
  // `kv_numerics`: see Engine::OpenReceive. REQUIRES: kPromised.
  void OpenReceive(Sequence& sequence, std::string kv_numerics);
  // All tokens are in the cache: its choices join the batch, each with its first token, in their
  // order, to compute next. Gives them, in that order. REQUIRES: kReceiving.
  std::vector<Sequence*> Commit(Sequence& sequence, absl::Span<const int32_t> first_tokens);
  // Before Remove: what it holds and has received before `received_tokens`, by whole pages, waits
  // for the next sequence of its resume_key. Nothing where it is not kReceiving. REQUIRES: nothing
  // writes into its blocks any more.
  void Retain(Sequence& sequence, int received_tokens, absl::Time now);
  void ForgetExpired(absl::Time now) { retained_.ForgetExpired(now); }
  // Of what is retained: when to call ForgetExpired at the latest.
  absl::Time NextExpiry() const { return retained_.NextExpiry(); }
  // The step that computes the schedule's batch is in flight from here on: what is scheduled next
  // comes behind it. Choices whose first tokens it makes part, with one pending output each.
  void StepEnqueued(Schedule& schedule);
  // Sequences and blocks that a step in flight may touch and nobody else does any more.
  struct Leaving {
    uint64_t last_step = 0;
    std::unique_ptr<Sequence> sequence = nullptr;
    BlockPool::Block block = {};
  };
  // The oldest step in flight is done. What only waited for it is given back with the result: until
  // then the step's pointers hold. REQUIRES: there is one.
  std::vector<Leaving> StepDone();
  bool InFlight(const Sequence& sequence) const { return sequence.last_step > done_steps_; }
  // A step that is done has computed the tokens before `end_token`.
  void MarkComputed(Sequence& sequence, int end_token);
  // The id of its oldest pending output, or of one more where none is.
  void AddOutput(Sequence& sequence, int32_t token_id);
  // What it computed is wrong: nobody else may find it.
  void ForgetBlocks(Sequence& sequence);
  // Leaves the batch, keeps the blocks.
  void Hold(Sequence& sequence);
  // Gives back everything and destroys it, at the latest when the steps in flight are done; until
  // then it is kEnded.
  void Remove(Sequence& sequence);

  // Whether Next might preempt. REQUIRES then, before Next: no step is in flight.
  bool MayPreempt() const;
  // The next step's batch, at most max(row_budget, decodes + kChunkTokens) rows. Pointers hold
  // until Remove, and until StepDone of a step that has them.
  Schedule Next(int row_budget);

  struct Counts {
    int waiting = 0;             // to be admitted, or computed again
    int running = 0;             // not paused
    int runnable = 0;            // running, and not sitting out for lack of a block
    int64_t waiting_tokens = 0;  // to be prefilled here
  };
  Counts CountSequences() const;

 private:
  struct ByArrival {
    bool operator()(const Sequence* a, const Sequence* b) const { return a->arrival < b->arrival; }
  };
  using Line = std::set<Sequence*, ByArrival>;
  // What is held of a sequence before it starts.
  struct HeldPrefix {
    std::vector<int32_t> blocks;
    size_t shared = 0;  // the first of them are the prefix cache's, the rest retained
    int tokens = 0;
    int used_blocks = 0;  // by others
  };

  int PlacesOf(const Sequence& sequence) const;
  std::vector<Sequence*> BatchMembers(const Sequence* without = nullptr) const;
  int ScheduleDecodes(const std::vector<Sequence*>& members, Schedule& schedule);
  int SchedulePrefills(const std::vector<Sequence*>& members, int room, Schedule& schedule);
  void Admit(int places, int room, Schedule& schedule);
  bool PromiseBlocks(Sequence& sequence);
  std::vector<Sequence*> Part(Sequence& sequence);
  std::unique_ptr<Sequence> MakeChoice(Sequence& first, int choice);
  bool EndsInABlock(const Sequence& sequence) const;
  HeldPrefix FindHeld(const Sequence& sequence) const;
  void TakeHeld(Sequence& sequence, const HeldPrefix& held);
  void CheckWrittenBlocksAreItsOwn(const Sequence& sequence) const;
  int ScheduleChunk(Sequence& sequence, int room, Schedule& schedule) const;
  bool GetBlockForNextToken(Sequence& sequence, Schedule& schedule);
  Sequence* ChooseVictim() const;
  void Preempt(Sequence& sequence, Schedule& schedule);
  int BlocksFor(int tokens) const;
  void TakePromisedBlocks(Sequence& sequence);
  void EnterBlocks(Sequence& sequence, int computed_tokens);
  static void AddBlock(Sequence& sequence, BlockPool::Block block);

  const SchedulerOptions options_;
  BlockPool& pool_;
  PrefixCache* const prefix_cache_;
  RetainedPrefixes retained_;
  uint64_t next_arrival_ = 0;
  std::map<SequenceId, std::vector<std::unique_ptr<Sequence>>> sequences_;  // by choice
  Line waiting_;                                                            // state kWaiting
  Line running_;         // state kRunning, paused ones too
  int sitting_out_ = 0;  // in the last schedule
  uint64_t enqueued_steps_ = 0;
  uint64_t done_steps_ = 0;
  std::vector<Leaving> leaving_;
};

}  // namespace baton
