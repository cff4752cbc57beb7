// One sequence inside an engine: its tokens, its blocks and its state.
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

// The life of a sequence, by the mode of its request:
//
//   kLocal        kWaiting -> kRunning -> removed
//   kReceive      kWaiting -> kReserved -> kReceiving -> kRunning -> removed
//   kPrefillOnly  kWaiting -> kRunning -> kHeld -> removed
//
// A preemption takes a sequence that decodes here from kRunning back to kWaiting. Release removes a
// sequence in any state. A sequence that is removed while a step in flight has it stays as kEnded
// until that step is done; any other is destroyed at once.
// Where the choices of a sequence part, each further choice becomes a Sequence in the same state.
//
// Thread rule: the engine's thread only. The scheduler owns every sequence, and it alone changes
// state, reservation and blocks.
struct Sequence {
  enum class State {
    kWaiting,    // waits for blocks and, to be computed here, for a place in the batch
    kReserved,   // blocks are reserved for KV that comes from elsewhere
    kReceiving,  // these blocks are taken and being written
    kRunning,    // in the batch unless paused
    kHeld,       // kPrefillOnly, finished or failed: keeps its blocks until it is released
    kEnded,      // removed, but a step in flight still has it
  };

  Sequence(SequenceId sequence_id, uint64_t arrival_number, SequenceRequest sequence_request)
      : id(sequence_id),
        arrival(arrival_number),
        request(std::move(sequence_request)),
        token_ids(std::move(request.token_ids)),
        counts(request.sampling, token_ids, request.prompt_length) {
    for (int i = 0; i < request.choices; ++i) choices.push_back(request.choice + i);
  }
  // Gives the last block back first: the prefix cache evicts in the order of giving back.
  ~Sequence() { GiveBackBlocks(); }

  void GiveBackBlocks() {
    while (!blocks.empty()) blocks.pop_back();
    block_table.clear();
    copied_from = BlockPool::Block();
    copies_last_block = false;
    entered_blocks = 0;
    reservation = BlockPool::Reservation();
  }

  int token_count() const { return static_cast<int>(token_ids.size()) + pending_outputs; }
  int uncomputed_tokens() const { return token_count() - computed_tokens; }
  int output_count() const { return token_count() - request.prompt_length; }
  int choice() const { return choices.front(); }
  // Whether it computes several choices, which part when its next output is sampled.
  bool forks() const { return choices.size() > 1; }
  // Whether its KV comes from elsewhere and is not complete yet.
  bool awaits_kv() const { return request.mode == SequenceRequest::Mode::kReceive && !committed; }
  // Whether its last output is pending already: then there is nothing left to compute.
  bool complete() const { return pending_outputs > 0 && token_count() >= most_tokens; }
  // Whether the prefix cache may hold the blocks that it computed or received.
  bool shareable() const { return kv_numerics.empty() && vouched; }
  // Whether its blocks may be taken away, to be recomputed later. A peer reads or writes the blocks
  // of a sequence that is not preemptible.
  bool preemptible() const {
    return state == State::kRunning && request.mode != SequenceRequest::Mode::kPrefillOnly;
  }

  const SequenceId id;
  const uint64_t arrival;          // place in the order of arrival; kept when it is preempted
  SequenceRequest request;         // its token_ids are moved into token_ids below
  std::vector<int> choices;        // indices that it computes, ascending; one after they parted
  std::vector<int32_t> token_ids;  // prompt, then the outputs whose ids are known
  TokenCounts counts;              // counts of token_ids
  // Outputs that the steps in flight sample: they count as tokens, only their ids are unknown.
  int pending_outputs = 0;
  int pending_row = 0;     // row of the last step whose sampled token is the last pending output
  int most_tokens = 0;     // token count at which it ends at the latest
  uint64_t last_step = 0;  // number of the last step that has it; steps count from 1

  State state = State::kWaiting;
  bool paused = false;
  bool admitted = false;    // SequenceAdmitted was told
  bool committed = false;   // kReceive: all its KV has arrived
  std::string kv_numerics;  // numerics under which its K and V are made; empty: this engine's own
  bool vouched = true;      // false: it begins with retained pages, which no commit has vouched for
  int computed_tokens = 0;  // tokens whose K and V are in the cache after the steps in flight
  int cached_tokens = 0;    // tokens that were held already when it last got its blocks
  int prefill_tokens = 0;   // token count when it last joined the batch: tokens before it are
                            // prefilled, later ones are decoded

  BlockPool::Reservation reservation;
  std::vector<BlockPool::Block> blocks;
  std::vector<int32_t> block_table;  // ids of `blocks`
  // Whether the last block still has to get the bytes of `copied_from`, before this choice first
  // writes into it. Another choice goes on with `copied_from`.
  bool copies_last_block = false;
  BlockPool::Block copied_from;
  size_t entered_blocks = 0;  // leading blocks that the prefix cache was told of
  // Blocks that equal ones of the prefix cache have replaced in `blocks` while a peer reads them.
  std::vector<BlockPool::Block> replaced;

  int preemptions = 0;
  absl::Time ready;  // time of Submit, or of Commit
  std::optional<absl::Time> first_step, prefill_end, first_decode;
};

}  // namespace baton
