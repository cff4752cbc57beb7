// The counters and sizes of an engine, written by its thread and read by any.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "absl/time/time.h"

#include "common/engine/rate_meter.h"

namespace baton {

// A histogram of the steps of an engine by their tokens. counts[i] is the number of steps with at
// most kBounds[i] tokens and more than the previous bound; the last entry counts all larger steps.
struct StepSizes {
  static constexpr std::array<int, 13> kBounds = {1,   8,    16,   32,   64,   128,  256,
                                                  512, 1024, 2048, 4096, 8192, 16384};
  std::array<uint64_t, kBounds.size() + 1> counts = {};
  uint64_t tokens = 0;  // total tokens of all steps

  void Add(int step_tokens);
};

// Counters and sizes of an engine. All but progress, the submissions in waiting_sequences,
// tokens_per_second and steps are a snapshot of one moment of the engine's thread.
struct EngineStats {
  uint64_t progress = 0;  // advances at every computed layer, and at masks
  int waiting_sequences = 0;
  int running_sequences = 0;  // sequences in the batch that are not paused
  // Running sequences that did not miss the step for lack of a block or a mask.
  int runnable_sequences = 0;
  int awaited_masks = 0;       // sequences whose next mask another thread makes
  int64_t waiting_tokens = 0;  // tokens still to be prefilled here
  int total_blocks = 0;
  int used_blocks = 0;        // blocks that sequences hold
  int reserved_blocks = 0;    // blocks that are reserved and not yet taken
  int free_blocks = 0;        // blocks that are neither used nor reserved
  int cached_blocks = 0;      // free blocks that are kept for the prefix they hold
  int draft_used_blocks = 0;  // blocks of the draft model's cache that sequences hold
  uint64_t preemptions = 0;
  uint64_t prompt_tokens_computed = 0;
  uint64_t prompt_tokens_cached = 0;
  uint64_t generated_tokens = 0;
  uint64_t accepted_guesses = 0;  // guessed tokens that came true: they are generated_tokens too
  uint64_t refused_guesses = 0;   // guessed tokens whose rows were computed in vain
  double tokens_per_second = 0;   // tokens prefilled and decoded, over the last 4 seconds
  StepSizes steps;
};

// Thread rule: thread-safe, except `totals`, which is the engine's thread's.
class EngineStatsBoard {
 public:
  // One layer of a step, or one sequence's masks, are computed.
  void Advance() { progress_.fetch_add(1, std::memory_order_relaxed); }
  // A step of `rows` rows is done.
  void StepDone(absl::Time now, int rows);
  // Readers see `stats` from now on.
  void Publish(const EngineStats& stats);
  // What was published last, with progress, tokens_per_second and steps as they are
  // at `now`.
  EngineStats Read(absl::Time now) const;

  EngineStats totals;  // only its counters are kept up to date

 private:
  std::atomic<uint64_t> progress_ = 0;
  mutable std::mutex mutex_;  // guards the members below
  EngineStats published_;
  mutable RateMeter rate_;
  StepSizes steps_;
};

}  // namespace baton
