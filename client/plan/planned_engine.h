// The engine of a planned worker: which tokens each step computes, by the policy of
// common/engine/scheduler.h, and how long the step takes.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/types/span.h"

#include "client/plan/planned_memory.h"
#include "client/plan/step_costs.h"
#include "common/engine/step_sizer.h"

namespace baton {

// A sequence on one engine. Its owner sets what is above the line; the engine keeps the rest.
struct PlannedSequence {
  enum class Kind {
    kPrefillOnly,  // computes the prompt and its first token, for another worker
    kReceive,      // the prompt's KV comes from another worker
    kWhole,        // computes the prompt and decodes
  };
  Kind kind = Kind::kWhole;
  uint32_t request = 0;                // its request, numbered in the order of arrival
  int prompt_tokens = 0;               // at least 1
  int output_tokens = 0;               // to be generated, at least 1
  absl::Span<const uint64_t> pages{};  // names of the whole pages that the prompt begins with
  // ------------------------------
  int known_tokens = 0;     // prompt tokens and generated tokens
  int computed_tokens = 0;  // tokens whose KV is computed
  int cached_tokens = 0;    // prompt tokens in the cache at the start
  int pages_used = 0;       // entries of `pages` that are used
  int64_t own_tokens = 0;   // room beside those pages, in whole blocks with them
  bool preempted = false;   // once at least

  int uncomputed_tokens() const { return known_tokens - computed_tokens; }
  int generated_tokens() const { return known_tokens - prompt_tokens; }
  bool decodes() const { return kind != Kind::kPrefillOnly; }
};

// What a step did for a sequence.
struct StepOutcome {
  PlannedSequence* sequence = nullptr;
  int first_token = 0;          // computed tokens
  int token_count = 0;          //
  bool produces_token = false;  // the last of them gave a token
};

// Not thread-safe. Borrows the costs and the sequences, which must live until they are released.
class PlannedEngine {
 public:
  struct Options {
    int max_num_seqs = 64;
    int max_num_batched_tokens = 512;
    absl::Duration max_step_duration = absl::Milliseconds(100);
    int block_tokens = 32;
  };
  struct Counts {
    uint64_t steps = 0, decode_steps = 0;
    uint64_t decode_rows = 0, chunk_rows = 0;
    uint64_t preemptions = 0;
    int64_t busy_ns = 0;
  };
  PlannedEngine(const Options& options, const StepCosts& costs, PlannedMemory memory);

  // The sequence waits in the order of arrival. It takes part from the next Begin on.
  void Submit(PlannedSequence& sequence);
  // The KV of an admitted kReceive sequence has come, and its first token, which is known.
  void Commit(PlannedSequence& sequence);
  // Gives its room back: of a kPrefillOnly sequence after its last byte has gone, of others when
  // their last token came. REQUIRES: it is admitted, and in no step in flight.
  void Release(PlannedSequence& sequence);

  // Chooses the next step, and takes and gives room. Returns how long the step takes in
  // nanoseconds; nullopt: there is nothing to compute. REQUIRES: no step is in flight.
  std::optional<int64_t> Begin();
  // The sequences that the last Begin admitted for the first time.
  absl::Span<PlannedSequence* const> admitted() const { return admitted_; }
  // Ends the step in flight. Valid until the next Begin. REQUIRES: one is in flight.
  absl::Span<const StepOutcome> Finish();

  bool in_step() const { return in_step_; }
  const PlannedMemory& memory() const { return memory_; }
  const Counts& counts() const { return counts_; }
  int running() const { return static_cast<int>(running_.size()); }
  int waiting() const { return static_cast<int>(waiting_.size()); }

 private:
  int64_t InBlocks(int64_t tokens) const;
  bool GrowTo(PlannedSequence& sequence, int64_t tokens);
  bool TryStart(PlannedSequence& sequence);
  bool GetRoomForNextToken(PlannedSequence& sequence);
  void Preempt(PlannedSequence& sequence);
  int ScheduleDecodes();
  int ScheduleChunk(PlannedSequence& sequence, int room);
  void Admit(int places, int room);
  void EnterPages(PlannedSequence& sequence);

  const Options options_;
  const StepCosts& costs_;
  PlannedMemory memory_;
  StepSizer sizer_;
  std::deque<PlannedSequence*> waiting_;   // in the order of arrival
  std::vector<PlannedSequence*> running_;  // likewise: those that are computed here
  std::vector<PlannedSequence*> admitted_;
  std::vector<StepOutcome> batch_;
  StepShape shape_;
  int64_t step_ns_ = 0;
  bool in_step_ = false;
  Counts counts_;
};

}  // namespace baton
