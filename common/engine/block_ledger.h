// Gives the sequences of an engine their KV blocks and takes them back: reserved blocks, and blocks
// that hold the prefix that a sequence begins with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "common/engine/sequence.h"
#include "common/engine/steps_in_flight.h"
#include "common/kv/block_pool.h"
#include "common/kv/block_sources.h"
#include "common/kv/layout.h"
#include "common/kv/prefix_cache.h"
#include "common/kv/retained_prefixes.h"

namespace baton {

// It alone changes Sequence::blocks, and the parts of Sequence::kv that describe what a sequence
// found in its blocks. When to do what is the scheduler's and the sequence table's to say. A block
// comes back no sooner than the last step that may touch it is done.
//
// A group of layers without a window has a block for every span of the sequence. A group with a
// window has those that are still read (KvNeed): a sequence that is computed here takes them chunk
// by chunk and gives them back behind the window. It has reserved as many as it ever has at once,
// and for each one that it gives back it reserves another. That can fail only if another sequence shares
// the block; then the sharer has reserved one that it does not need, and what it gives back when it
// ends serves this sequence. So the newest sequence always gets on.
//
// Thread rule: one thread, the engine's. Borrows the pool, the prefix cache and the steps, which
// must outlive it.
class BlockLedger {
 public:
  struct Options {
    int block_size = 0;  // tokens of a block
    KvLayerGroups groups = {};
    int chunk_tokens = 0;  // most tokens of a sequence in a step; only read if there are windows
    RetainedPrefixes::Bounds retained = {};
  };
  // `prefix_cache` has the same pool and block size. Null: no blocks are shared.
  BlockLedger(const Options& options, BlockPool& pool, PrefixCache* prefix_cache,
              StepsInFlight& steps);

  // The most blocks that a sequence waits for at once: those that it has at once for its tokens
  // and, in the modes that decode, one span of head-room for each choice and one for each further
  // choice's copy of a last span that is not full. A sequence whose full length does not fit in the
  // pool may never run.
  int BlocksToStart(const Sequence& sequence) const;
  // The blocks for its uncomputed tokens that it neither has nor has reserved.
  int LackingBlocks(const Sequence& sequence) const;
  // Blocks that any sequence may take: free and not reserved.
  int available_blocks() const { return pool_.available_blocks(); }

  // Reserves the blocks that the sequence starts with; false if too few are free. A sequence
  // that is computed here takes the blocks of all its tokens at once, but those of windows, first
  // those that hold its prefix. One whose KV comes from elsewhere takes them when it is opened:
  // until then they are only looked at. One that still scores its prompt takes no held prefix.
  bool TryStart(Sequence& sequence);
  // Turns the reservation into blocks for all tokens; the head-room stays reserved. The KV of the
  // first cached_tokens is held already, in blocks that others may use too. All blocks from there
  // on are the sequence's alone. `kv_numerics`: see Engine::OpenReceive.
  void Open(Sequence& sequence, std::string kv_numerics);
  // The KV of an opened sequence has arrived. All its blocks stay until the next Computed, so that
  // they can be audited.
  void Commit(Sequence& sequence);
  // Takes the blocks of windows for the tokens from kv.computed_tokens to `end`, which are computed
  // next; false if none is free, which is rare.
  bool TakeForChunk(Sequence& sequence, int end);
  // Takes the blocks that its only uncomputed token lacks, reserved ones or else any; false if
  // too few are free.
  bool TryTakeForNextToken(Sequence& sequence);
  // How many of `wanted` tokens behind its own the sequence has room for, with one span more if
  // that is free: none of what is reserved, its own head-room neither. SettleAhead must follow once
  // its tokens are known. REQUIRES: it has the blocks for all its tokens, and `wanted` is at most a
  // page.
  int TakeAhead(Sequence& sequence, int wanted);
  // Gives back the span that TakeAhead took. If tokens have come to need it, it is the sequence's,
  // which gives up its head-room for it. REQUIRES: no step in flight may touch it.
  void SettleAhead(Sequence& sequence);
  // Whether the sequence has a span for each of its tokens.
  bool HasSpans(const Sequence& sequence) const {
    return SpansOf(sequence) >= SpansFor(sequence.tokens.count());
  }
  // Gives `other`, a fork of `first`, the same blocks, but blocks of its own for its copy of a last
  // span that is not full.
  void Share(Sequence& first, Sequence& other);
  // Splits what `first` still has reserved: one span of head-room for each of `others`, as far as
  // it goes.
  void SplitHeadRoom(Sequence& first, const std::vector<Sequence*>& others);
  // Gives up the reserved blocks beyond what the sequence needs to start, which needed `before`
  // blocks (BlocksToStart) until it lost a choice.
  void GiveUpSince(Sequence& sequence, int before);
  // The last span of the sequence is written by step `step`, which copies the bytes of the blocks
  // that it continues: those are kept until the step is done.
  void Copied(Sequence& sequence, uint64_t step);
  // Gives up all that is reserved for the sequence.
  void GiveUpReservation(Sequence& sequence);
  // Gives back all blocks of a sequence that is preempted.
  void GiveBack(Sequence& sequence);

  // The tokens before `computed_tokens` are computed, and every step in flight computes later ones.
  // Enters every whole span before `computed_tokens` into the prefix cache. If the cache has
  // another block with the same content, the sequence uses that one. Gives back blocks that are not
  // read any more.
  void Computed(Sequence& sequence, int computed_tokens);
  // Takes the sequence's blocks out of the prefix cache, because their content is wrong.
  void ForgetBlocks(const Sequence& sequence);

  // Who wrote which block: the kv_source of the sequence that it was opened for. A block that is
  // computed on here has another writer from when it is whole.
  const BlockSources& sources() const { return sources_; }
  // Makes the prefix cache forget all blocks, so that no sequence finds a prefix in them.
  void ForgetAllHeld();

  // Retains the KV that the sequence held or received before `received_tokens`, by whole pages, for
  // the next sequence of its resume_key. To be called right before the sequence is removed. Does
  // nothing for a sequence that is not kReceiving. REQUIRES: no thread writes into its blocks
  // any more.
  void Retain(const Sequence& sequence, int received_tokens, absl::Time now);
  void ForgetExpired(absl::Time now) { retained_.ForgetExpired(now); }
  // When to call ForgetExpired at the latest; InfiniteFuture when nothing is retained.
  absl::Time NextExpiry() const { return retained_.NextExpiry(); }

 private:
  // The blocks that hold a sequence's prefix before it starts.
  struct HeldPrefix {
    std::vector<int32_t> table;  // [spans][groups]; kNoBlock if the sequence does not read it
    int shared = 0;              // leading spans from the prefix cache; the rest is retained
    int tokens = 0;
    int used_blocks = 0;  // blocks in use, which cost no reservation
  };

  int SpansFor(int tokens) const { return layout_.BlocksFor(tokens); }
  int SpansOf(const Sequence& sequence) const { return sequence.blocks.count() / groups_.count(); }
  size_t Entry(int span, int group) const {
    return static_cast<size_t>(span) * static_cast<size_t>(groups_.count()) +
           static_cast<size_t>(group);
  }
  KvNeed NeedOf(const Sequence& sequence) const;
  int BlocksForTokens(const Sequence& sequence) const;
  int HeadRoom(const Sequence& sequence) const;
  bool EndsInASpan(const Sequence& sequence) const;
  HeldPrefix FindHeld(const Sequence& sequence) const;
  void TakeHeld(Sequence& sequence, const HeldPrefix& held);
  void TakeReserved(Sequence& sequence);
  void CheckWrittenBlocksAreItsOwn(const Sequence& sequence) const;
  void EnterSpans(Sequence& sequence, int computed_tokens);
  void NoteContinued(const Sequence& sequence, int span);
  bool PeerReads(const Sequence& sequence, int span, int group) const;
  void GiveBackUnread(Sequence& sequence, int computed_tokens);

  const KvLayout layout_;        // only the block size and the groups are set
  const int block_size_;         // layout_.block_size: tokens of a block
  const KvLayerGroups& groups_;  // layout_.groups
  const int chunk_tokens_;
  BlockPool& pool_;
  PrefixCache* const prefix_cache_;
  StepsInFlight& steps_;
  RetainedPrefixes retained_;
  BlockSources sources_;
};

}  // namespace baton
