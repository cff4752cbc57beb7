// One sequence inside an engine: its tokens, its KV, its blocks and its state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "common/backend/token_counts.h"
#include "common/engine/draft_kv.h"
#include "common/engine/sequence_form.h"
#include "common/engine/sequence_request.h"
#include "common/kv/block_pool.h"
#include "common/speculation/guess_length.h"
#include "common/speculation/proposer.h"

namespace baton {

// The tokens of a sequence. Outputs that the steps in flight sample are pending: they count as
// tokens, only their ids are unknown.
struct SequenceTokens {
  int count() const { return static_cast<int>(ids.size()) + pending_outputs; }
  // Appends an output: the id of the oldest pending one, or a further one if none is pending. An
  // error of the form names the token that may not come; then nothing is appended.
  absl::Status AddOutput(int32_t id);

  std::vector<int32_t> ids;          // prompt, then the outputs whose ids are known
  TokenCounts counts;                // counts of `ids`
  std::optional<SequenceForm> form;  // form of the outputs among `ids`
  int most = 0;                      // token count at which the sequence ends at the latest
  int pending_outputs = 0;
  int pending_row = 0;  // row of the last step whose sampled token is the last pending output
  int scored = 0;       // tokens of the prompt that need no log probability any more
};

// The tokens of a sequence whose K and V are present, and the source of that KV.
struct SequenceKv {
  // Whether the prefix cache may hold the blocks that the sequence computed or received.
  // tests/planted_bugs: unverified_page_into_the_shared_cache
  bool shareable() const { return numerics.empty() && vouched; }

  int computed_tokens = 0;  // tokens whose K and V are in the cache after the steps in flight
  int cached_tokens = 0;    // tokens that were held already when the sequence last got its blocks
  int prefill_tokens = 0;   // token count when the sequence last joined the batch: tokens before it
                            // are prefilled, later ones are decoded
  int received_tokens = 0;  // tokens of the hand-off that its blocks came by; 0: computed here
  bool committed = false;   // kReceive: all K and V have arrived
  bool vouched = true;      // false: they begin with retained pages, which no commit has confirmed
  std::string numerics;     // numerics under which they are made; empty: this engine's own
  // The writers of blocks that it has given back behind a window, as in BlockSources::AnyFrom: ""
  // if there was none, or several.
  std::set<std::string> former_sources = {};
};

// The blocks that a sequence holds. Only the block ledger changes them. The tokens are cut into
// spans of a block's size. A span has an entry for each group of layers (KvLayout::TableIndex); the
// entry is empty if the group's block is not there yet, or not needed any more.
struct SequenceBlocks {
  SequenceBlocks() = default;
  ~SequenceBlocks() { GiveBack(); }
  SequenceBlocks(const SequenceBlocks&) = delete;
  SequenceBlocks& operator=(const SequenceBlocks&) = delete;

  // The entries of all spans.
  int count() const { return static_cast<int>(held.size()); }
  // Appends an entry.
  void Add(BlockPool::Block block);
  // Fills an entry, or empties it if `block` is empty. Returns what it was.
  BlockPool::Block Put(size_t entry, BlockPool::Block block);
  // Gives everything back but `replaced`, the last block first: the prefix cache evicts in the
  // order of giving back.
  void GiveBack();

  BlockPool::Reservation reservation;
  std::vector<BlockPool::Block> held;
  std::vector<int32_t> table;  // ids of `held`; kNoBlock if it is empty
  // The blocks [groups] whose bytes those of the last span still have to get, before this choice
  // first writes into these. Another choice goes on with them. Empty: nothing is to be copied.
  std::vector<BlockPool::Block> copied_from;
  bool ahead = false;  // whether the last span was taken for guesses (BlockLedger::TakeAhead)
  size_t entered = 0;  // leading spans that were entered into the prefix cache
  // Blocks that equal ones of the prefix cache have replaced in `held` while a peer reads them.
  std::vector<BlockPool::Block> replaced;
};

// Guesses of a sequence's next tokens, and what came of them. Only the guesser changes it.
struct SequenceGuesses {
  std::unique_ptr<Proposer> proposer;  // null: not asked yet
  std::vector<int32_t> next;           // tokens that may follow the known ones
  int forced = 0;              // how many of them, from the first on, spell what the grammar forces
  bool drafted = false;        // they are the draft model's
  Acceptance acceptance{0.5};  // acceptance rate of the proposer's guesses
  Acceptance draft_acceptance{0.5};    // acceptance rate of the draft model's guesses
  Acceptance forced_acceptance{0.95};  // forced text is certain, but not how it is tokenised
  DraftKv draft_kv;
  bool in_flight = false;  // a step in flight has guesses and will show the number of tokens
  bool awaited = false;    // guesses behind the pending output are worth the wait for it
};

// The times at which a sequence reached its stages.
struct SequenceTimes {
  absl::Time ready;  // time of Submit, or of Commit
  std::optional<absl::Time> first_step, prefill_end, first_decode;
};

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
// Thread rule: the engine's thread only. The sequence table owns every sequence, and it alone
// changes the state.
struct Sequence {
  enum class State {
    kWaiting,    // waits for blocks and, to be computed here, for a place in the batch
    kReserved,   // blocks are reserved for KV that comes from elsewhere
    kReceiving,  // these blocks are taken and being written
    kRunning,    // in the batch unless paused
    kHeld,       // kPrefillOnly, finished or failed: keeps its blocks until it is released
    kEnded,      // removed, but a step in flight still has it
  };

  // `arrival_number`: see `arrival`. `max_model_len`: tokens of prompt and output.
  Sequence(SequenceId sequence_id, uint64_t arrival_number, SequenceRequest sequence_request,
           int max_model_len);
  // One of the further choices of this sequence, as a sequence of its own that is alike in all but
  // its blocks and guesses: it has none yet.
  std::unique_ptr<Sequence> Fork(int choice) const;

  State state() const { return state_; }
  // Goes to the next state. REQUIRES: an arrow of the life above.
  void Enter(State next);

  int uncomputed_tokens() const { return tokens.count() - kv.computed_tokens; }
  int output_count() const { return tokens.count() - request.prompt_length; }
  int choice() const { return choices.front(); }
  // Whether it computes several choices, which part when its next output is sampled.
  bool forks() const { return choices.size() > 1; }
  // Whether log probabilities of its prompt are still to be reported. They need the rows of the
  // prompt, so the sequence uses no cached prefix.
  bool scores() const { return tokens.scored < request.prompt_length; }
  // Whether its KV comes from elsewhere and is not complete yet.
  bool awaits_kv() const {
    return request.mode == SequenceRequest::Mode::kReceive && !kv.committed;
  }
  // Whether its last output is pending already: then there is nothing left to compute.
  bool complete() const { return tokens.pending_outputs > 0 && tokens.count() >= tokens.most; }
  // Whether it has no row in the next step because that depends on the result of a step in flight.
  bool waits_for_token() const {
    // tests/planted_bugs: next_token_known
    return guesses.in_flight ||
           (tokens.pending_outputs > 0 && (guesses.awaited || tokens.form.has_value()));
  }
  // Whether its next output comes with a chunk, rather than by a decode.
  bool next_is_of_chunk() const {
    return state_ == State::kWaiting || kv.computed_tokens < kv.prefill_tokens;
  }
  // Whether no row may sample its next output yet, since MasksAhead has to make its mask first.
  bool waits_for_mask() const {
    // tests/planted_bugs: mask_of_a_chunk_in_the_step
    return tokens.form && tokens.form->mask.empty() &&
           (tokens.form->is_slow() || tokens.form->state.stalled() || next_is_of_chunk());
  }
  // Whether its blocks may be taken away, to be recomputed later. A peer reads or writes the
  // blocks of a sequence that is not preemptible.
  bool preemptible() const {
    return state_ == State::kRunning && request.mode != SequenceRequest::Mode::kPrefillOnly;
  }

  const SequenceId id;
  const uint64_t arrival;    // place in the order of arrival; kept when it is preempted
  SequenceRequest request;   // its token_ids and its grammar are moved into `tokens`
  std::vector<int> choices;  // indices that it computes, ascending; one after they parted
  SequenceTokens tokens;
  SequenceKv kv;
  SequenceBlocks blocks;
  SequenceGuesses guesses;
  SequenceTimes times;
  bool paused = false;
  bool distrusted = false;  // it may rest on KV that proved to be wrong: nothing of it is retained
  bool admitted = false;    // whether SequenceAdmitted was reported
  int preemptions = 0;      // number of preemptions
  uint64_t last_step = 0;   // number of the last step that has it; steps count from 1

 private:
  // A choice of `first`.
  Sequence(const Sequence& first, int choice);

  State state_ = State::kWaiting;
};

}  // namespace baton
