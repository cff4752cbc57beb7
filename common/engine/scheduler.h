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
  int block_size = 0;    // tokens of a block
  int max_model_len = std::numeric_limits<int>::max();
  RetainedPrefixes::Bounds retained = {};
};

// Consecutive tokens of one sequence to compute in a step.
struct ScheduledTokens {
  Sequence* sequence = nullptr;
  int first_token = 0;
  int token_count = 0;
  bool produces_token = false;  // whether the sequence's last token is among them
  // The other choices, each a sequence of its own from here on. Set when the step is enqueued that
  // samples their first tokens.
  std::vector<Sequence*> parted = {};
  int end_token() const { return first_token + token_count; }
};

// Block `to` gets the bytes of block `from`.
struct BlockCopy {
  int32_t from = 0;
  int32_t to = 0;
};

struct Schedule {
  std::vector<Sequence*> preempted;
  std::vector<Sequence*> admitted;  // sequences whose blocks were reserved for the first time
  std::vector<BlockCopy> copies;    // to be made before the batch is computed
  std::vector<ScheduledTokens> batch;
};

// Chooses the batch of each step and owns all sequences of an engine. sequence.h shows the life of
// one. Each pass goes: Next, then StepEnqueued with the schedule, then StepDone, then MarkComputed
// and AddOutput for what the step has computed. In between Add, OpenReceive, Commit and Remove
// change what there is to compute.
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
//    run only in the steps that it sits out.
//  * Prefix cache. Whole blocks enter it as soon as their K and V are there (received ones at
//    Commit). A sequence begins behind the longest prefix found in it. A sequence that is computed
//    here looks when it gets its blocks, one that is computed elsewhere when it is opened. So a
//    preempted sequence finds most of its blocks again unless somebody needed them.
//  * Steps ahead. A step may be asked for before the tokens of the last one are known. Its decodes
//    continue behind pending outputs. A block comes back no sooner than the last step that may
//    touch it is done.
//  * Resumption. The pages that a broken hand-off received are retained for the next attempt at the
//    same request, which continues behind them, in the middle of a block too.
//
// Thread rule: one thread, the engine's. Borrows the pool and the prefix cache, which must outlive
// it.
class Scheduler {
 public:
  // `prefix_cache` has the same pool and block size. Null: no blocks are shared.
  Scheduler(const SchedulerOptions& options, BlockPool& pool, PrefixCache* prefix_cache);
  ~Scheduler();

  // The most blocks that a sequence waits for at once. A sequence whose full length does not fit in
  // the pool may never run.
  int BlocksToStart(const Sequence& sequence) const;

  // REQUIRES: `id` was never added before.
  Sequence& Add(SequenceId id, SequenceRequest request);
  // The first living choice of the sequence; null for an unknown id.
  Sequence* Find(SequenceId id);
  // All living choices of the sequence, ascending.
  std::vector<Sequence*> Choices(SequenceId id);
  // Takes one of the choices that have not parted yet out of the sequence: it will not be computed.
  // REQUIRES: it is one of them and not the last.
  void DropChoice(Sequence& sequence, int choice);

  // Turns the reservation into blocks for all tokens; the head-room stays reserved. The KV of the
  // first cached_tokens is held already, in blocks that others may use too. All blocks from there
  // on are the sequence's alone. `kv_numerics`: see Engine::OpenReceive. REQUIRES: kReserved.
  void OpenReceive(Sequence& sequence, std::string kv_numerics);
  // All tokens are in the cache. The choices join the batch, each with its first token, which is
  // the next one to compute. Returns the sequences of the choices in the order of `first_tokens`,
  // one for each choice. REQUIRES: kReceiving.
  std::vector<Sequence*> Commit(Sequence& sequence, absl::Span<const int32_t> first_tokens);
  // Retains the KV that the sequence held or received before `received_tokens`, by whole pages, for
  // the next sequence of its resume_key. To be called right before Remove. Does nothing for a
  // sequence that is not kReceiving. REQUIRES: nobody writes into its blocks any more.
  void Retain(Sequence& sequence, int received_tokens, absl::Time now);
  void ForgetExpired(absl::Time now) { retained_.ForgetExpired(now); }
  // When to call ForgetExpired at the latest; InfiniteFuture when nothing is retained.
  absl::Time NextExpiry() const { return retained_.NextExpiry(); }
  // The step that computes the schedule's batch is in flight from here on; the next schedule comes
  // behind it. Choices whose first tokens it samples part, with one pending output each.
  void StepEnqueued(Schedule& schedule);
  // A sequence or block that a step in flight may touch and nobody else uses any more.
  struct Leaving {
    uint64_t last_step = 0;  // number of the last step that may touch it
    std::unique_ptr<Sequence> sequence = nullptr;
    BlockPool::Block block = {};
  };
  // The oldest step in flight is done. Returns what nobody but this step used. Destroying the
  // result gives it back; until then the pointers in the step's schedule hold.
  // REQUIRES: a step is in flight.
  std::vector<Leaving> StepDone();
  bool InFlight(const Sequence& sequence) const { return sequence.last_step > done_steps_; }
  // A step that is done has computed the tokens before `end_token`.
  void MarkComputed(Sequence& sequence, int end_token);
  // Appends an output: the id of the oldest pending one, or a further one where none is pending.
  void AddOutput(Sequence& sequence, int32_t token_id);
  // Takes the sequence's blocks out of the prefix cache, because their content is wrong.
  void ForgetBlocks(Sequence& sequence);
  // Takes the sequence out of the batch; it keeps its blocks.
  void Hold(Sequence& sequence);
  // Removes the sequence, destroys it and gives its blocks back. Where a step in flight has it, it
  // becomes kEnded and StepDone of that step returns it instead.
  void Remove(Sequence& sequence);

  // Whether Next might preempt. If so, no step may be in flight when Next is called.
  bool MayPreempt() const;
  // The next step's batch, at most max(row_budget, decodes + kChunkTokens) rows. A pointer in it
  // holds until Remove of its sequence, or until StepDone of the last step that has it.
  Schedule Next(int row_budget);

  struct Counts {
    int waiting = 0;             // sequences to be admitted, or recomputed after a preemption
    int running = 0;             // sequences in the batch that are not paused
    int runnable = 0;            // running ones that did not sit out for lack of a block
    int64_t waiting_tokens = 0;  // tokens to be prefilled here
  };
  Counts CountSequences() const;

 private:
  struct ByArrival {
    bool operator()(const Sequence* a, const Sequence* b) const { return a->arrival < b->arrival; }
  };
  using Line = std::set<Sequence*, ByArrival>;
  // The blocks that hold a sequence's prefix before it starts.
  struct HeldPrefix {
    std::vector<int32_t> blocks;
    size_t shared = 0;  // leading blocks from the prefix cache; the rest is retained
    int tokens = 0;
    int used_blocks = 0;  // blocks that somebody uses, so that they cost no reservation
  };

  int PlacesOf(const Sequence& sequence) const;
  std::vector<Sequence*> BatchMembers(const Sequence* without = nullptr) const;
  int ScheduleDecodes(const std::vector<Sequence*>& members, Schedule& schedule);
  int SchedulePrefills(const std::vector<Sequence*>& members, int room, Schedule& schedule);
  void Admit(int places, int room, Schedule& schedule);
  bool ReserveBlocks(Sequence& sequence);
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
  void TakeReservedBlocks(Sequence& sequence);
  void EnterBlocks(Sequence& sequence, int computed_tokens);
  static void AddBlock(Sequence& sequence, BlockPool::Block block);

  const SchedulerOptions options_;
  BlockPool& pool_;
  PrefixCache* const prefix_cache_;
  RetainedPrefixes retained_;
  uint64_t next_arrival_ = 0;
  // The living choices of each sequence, ascending; one entry until they part.
  std::map<SequenceId, std::vector<std::unique_ptr<Sequence>>> sequences_;
  Line waiting_;         // sequences in state kWaiting
  Line running_;         // sequences in state kRunning, the paused ones too
  int sitting_out_ = 0;  // decodes that the last schedule left out for lack of a block
  uint64_t enqueued_steps_ = 0;
  uint64_t done_steps_ = 0;
  std::vector<Leaving> leaving_;
};

}  // namespace baton
