// Runs sequences on one model: continuous batching over a paged KV cache.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/engine/sequence_request.h"
#include "common/kv/cache.h"
#include "common/kv/prefix_pages.h"
#include "common/model/transformer.h"

namespace baton {

struct EngineOptions {
  int max_model_len = 0;  // tokens of prompt and output; 0: the model's context, or what the cache
                          // holds if that is less
  int max_num_seqs = 64;
  // Rows of one step, at least kChunkTokens (64); decodes leave prefills at least one chunk beyond
  // it.
  int max_num_batched_tokens = 512;
  // Prefill chunks are cut so that a step takes no longer, from measured speed; never below one of
  // 64 tokens.
  absl::Duration max_step_duration = absl::Milliseconds(100);
  int block_size = 32;
  int num_kv_blocks = 0;
  KvDtype kv_dtype = KvDtype::kF16;
  bool enable_prefix_caching = true;  // sequences that begin alike share their blocks
  std::string prefix_identity = {};   // of weights, architecture, numerics: begins every prefix
  // What a broken hand-off left waits so long for the next attempt at its request.
  absl::Duration resume_timeout = absl::Seconds(30);
  int max_waiting = 1024;  // sequences submitted and not running; more are RESOURCE_EXHAUSTED
  std::vector<int32_t> end_of_generation_ids = {};  // from the tokenizer
  // Steps that are asked for before the oldest one's tokens are known, 0 or 1: as the backend likes
  // it where none is given. Changes when tokens come, never which.
  std::optional<int> steps_ahead = std::nullopt;
};

// Seen from outside; consistent within one step.
struct EngineStats {
  uint64_t progress = 0;  // advances at every computed layer
  int waiting_sequences = 0;
  int running_sequences = 0;
  int runnable_sequences = 0;  // could be computed now: not promised, paused or waiting for a peer
  int64_t waiting_tokens = 0;  // not yet prefilled
  int total_blocks = 0;
  int used_blocks = 0;      // by sequences
  int promised_blocks = 0;  // not yet taken
  int free_blocks = 0;      // neither used nor promised
  int cached_blocks = 0;    // hold a prefix that nobody uses: counted in free_blocks too
  uint64_t preemptions = 0;
  uint64_t prompt_tokens_computed = 0;
  uint64_t prompt_tokens_cached = 0;
  uint64_t generated_tokens = 0;
  double tokens_per_second = 0;  // over the last seconds, prefilled and decoded
};

// Thread rule: Submit, OpenReceive, Commit, SetPaused, Stop, Release, NextId, Wake and Stats may be
// called from any thread; they only enqueue or read a snapshot. Step and WaitForWork belong to one
// thread, on which every event is delivered.
class Engine {
 public:
  // Owns the model and its cache from here on. Borrows the backend.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(std::unique_ptr<Transformer> model,
                                                        Backend& backend,
                                                        const EngineOptions& options);
  ~Engine();

  const EngineOptions& options() const;  // with every default filled in
  const ModelConfig& model_config() const;
  KvCache& cache();
  // Of a block of the cache: advances each time it is given to somebody else. On any thread,
  // without waiting.
  uint32_t BlockGeneration(int32_t block) const;
  // What the prefix cache holds, as of the last step; on any thread. Empty without a prefix cache.
  const PrefixPages& prefix_pages() const;

  SequenceId NextId();
  // INVALID_ARGUMENT where the request can never run here (longer than max_model_len, or than all
  // blocks); RESOURCE_EXHAUSTED when max_waiting sequences wait. No event is delivered after an
  // error.
  absl::Status Submit(SequenceId id, SequenceRequest request);
  // kReceive, after SequenceAdmitted: turns the promise into blocks, of which the first are those
  // that hold K and V already; answered by BlocksGranted. `kv_numerics` says how K and V will have
  // been made: empty, they are the very bytes that this engine would have computed, and only then
  // the prefix cache serves them or is told of them; another text equals that of an earlier attempt
  // only where the bytes do.
  void OpenReceive(SequenceId id, std::string kv_numerics);
  // kReceive, after BlocksGranted, once K and V from start_token on are written: the sequence joins
  // the batch at the next step with its first tokens, sampled where it was prefilled, as its next
  // output (not announced again by TokenProduced): one for each of the request's choices.
  void Commit(SequenceId id, std::vector<OutputToken> first_tokens);
  // A paused sequence leaves the batch and keeps its blocks, all its choices do.
  void SetPaused(SequenceId id, bool paused);
  // Ends one choice as Release ends them all; the others go on. The last one that lives ends the
  // sequence: REQUIRES then what Release does.
  void Stop(SequenceId id, int choice);
  // Ends the sequence in whatever state it is; the blocks come back at the latest when the steps in
  // flight have ended, two at most; then SequenceReleased. REQUIRES: no thread still reads or
  // writes its blocks. Unknown and ended ids are answered by nothing. `resume_tokens`, of a
  // kReceive sequence before Commit: the pages before it, and those that were held at the start,
  // wait for the next sequence of the same resume_key, and for nobody else.
  void Release(SequenceId id, std::optional<int> resume_tokens = std::nullopt);

  EngineStats Stats() const;

  // Takes what was enqueued, chooses a batch, runs it, applies the results: its own, or with
  // steps_ahead those of the step before, while it runs. False when there was nothing to compute
  // and no result was awaited.
  bool Step();
  // Returns when something was enqueued or Wake was called, at the latest after `timeout`.
  void WaitForWork(absl::Duration timeout);
  void Wake();  // from any thread

 private:
  struct Rep;
  explicit Engine(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
