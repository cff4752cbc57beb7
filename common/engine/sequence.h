// One sequence inside an engine: its tokens, its blocks and where it stands.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "common/backend/token_counts.h"
#include "common/engine/sequence_request.h"
#include "common/kv/block_pool.h"

namespace baton {

// Owned by the scheduler, which alone changes state, promise and blocks. Engine's thread only.
struct Sequence {
  enum class State {
    kWaiting,    // for blocks; to be computed here also for a place in the batch
    kPromised,   // blocks for KV from elsewhere are promised
    kReceiving,  // these blocks are granted and being written
    kRunning,    // in the batch unless paused
    kHeld,       // kPrefillOnly, finished or failed: keeps its blocks until it is released
    kEnded,      // removed; a step that is not done has it
  };

  Sequence(SequenceId sequence_id, uint64_t arrival_number, SequenceRequest sequence_request)
      : id(sequence_id),
        arrival(arrival_number),
        request(std::move(sequence_request)),
        token_ids(std::move(request.token_ids)),
        counts(request.sampling, token_ids, request.prompt_length) {
    for (int i = 0; i < request.choices; ++i) choices.push_back(request.choice + i);
  }
  // The last block first: the prefix cache evicts what was given back first.
  ~Sequence() { GiveBackBlocks(); }

  void GiveBackBlocks() {
    while (!blocks.empty()) blocks.pop_back();
    block_table.clear();
    copied_from = BlockPool::Block();
    copies_last_block = false;
    entered_blocks = 0;
    promise = BlockPool::Promise();
  }

  int token_count() const { return static_cast<int>(token_ids.size()) + pending_outputs; }
  int uncomputed_tokens() const { return token_count() - computed_tokens; }
  int output_count() const { return token_count() - request.prompt_length; }
  int choice() const { return choices.front(); }
  // The choices part with the next output.
  bool forks() const { return choices.size() > 1; }
  // The KV comes from elsewhere and is not all there.
  bool awaits_kv() const { return request.mode == SequenceRequest::Mode::kReceive && !committed; }
  // Its last output is pending: there is nothing to compute behind it.
  bool complete() const { return pending_outputs > 0 && token_count() >= most_tokens; }
  // The prefix cache may hold what it computed or received.
  bool shareable() const { return kv_numerics.empty() && vouched; }
  // May be taken out and recomputed. Others' blocks are read or written by a peer.
  bool preemptible() const {
    return state == State::kRunning && request.mode != SequenceRequest::Mode::kPrefillOnly;
  }

  const SequenceId id;
  const uint64_t arrival;          // the order of fairness; a preempted sequence keeps it
  SequenceRequest request;         // its token_ids are moved into token_ids
  std::vector<int> choices;        // that it computes, ascending: one of them once they have parted
  std::vector<int32_t> token_ids;  // prompt, then output that is known
  TokenCounts counts;              // of token_ids
  // Outputs that the steps in flight choose: as good as tokens, but for their ids.
  int pending_outputs = 0;
  int pending_row = 0;     // row of the last step whose sampled token is the last of them
  int most_tokens = 0;     // at which it ends at the latest
  uint64_t last_step = 0;  // that has it; numbered from 1

  State state = State::kWaiting;
  bool paused = false;
  bool admitted = false;    // SequenceAdmitted was told
  bool committed = false;   // kReceive
  std::string kv_numerics;  // under which K and V are made; empty: this engine's own
  bool vouched = true;      // false: begins with pages that no commit has vouched for
  int computed_tokens = 0;  // whose K and V are in the cache once the steps in flight are done
  int cached_tokens = 0;    // that were held already when it was last given its blocks
  int prefill_tokens = 0;   // that the current stay in the batch has to compute before it decodes

  BlockPool::Promise promise;
  std::vector<BlockPool::Block> blocks;
  std::vector<int32_t> block_table;  // ids of blocks
  // The last block is still to become what that one is, which another choice goes on with.
  bool copies_last_block = false;
  BlockPool::Block copied_from;
  size_t entered_blocks = 0;               // the first of them, which the prefix cache has
  std::vector<BlockPool::Block> replaced;  // others stand for them, a peer still reads them

  int preemptions = 0;
  absl::Time ready;  // submitted, or committed
  std::optional<absl::Time> first_step, prefill_end, first_decode;
};

}  // namespace baton
