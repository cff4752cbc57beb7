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

#include "common/engine/request_check.h"
#include "common/engine/sequence_request.h"
#include "common/kv/cache.h"
#include "common/kv/prefix_pages.h"
#include "common/model/transformer.h"

namespace baton {

struct EngineOptions {
  int max_model_len = 0;  // tokens of prompt and output; 0: the model's context, or what the cache
                          // holds if that is less
  int max_num_seqs = 64;  // sequences in one step
  // Rows of one step, at least kChunkTokens (64). Where decodes take most of them, prefills still
  // get one chunk beyond it.
  int max_num_batched_tokens = 512;
  // Prefill chunks are cut, by the measured speed, so that a step takes no longer than this. No
  // chunk is cut below 64 tokens.
  absl::Duration max_step_duration = absl::Milliseconds(100);
  int block_size = 32;    // tokens of a block
  int num_kv_blocks = 0;  // blocks of the KV cache; at least one
  KvType kv_dtype = KvType::kF16;
  bool enable_prefix_caching = true;  // sequences that begin alike share their blocks
  // Names weights, architecture and numerics: it begins the hash of every cached prefix.
  std::string prefix_identity = {};
  // How long the pages of a broken hand-off are retained for the next attempt at its request.
  absl::Duration resume_timeout = absl::Seconds(30);
  int max_waiting = 1024;  // sequences submitted and not admitted; more are RESOURCE_EXHAUSTED
  std::vector<int32_t> end_of_generation_ids = {};  // token ids from the tokenizer
  // Steps that are enqueued before the tokens of the oldest one are known: 0 or 1. Not given: what
  // the backend prefers. It changes when tokens come, never which.
  std::optional<int> steps_ahead = std::nullopt;
};

// What Engine::Create refuses, but for num_kv_blocks, which may be known only once the weights are
// loaded. Errors name the flag.
absl::Status CheckEngineOptions(const EngineOptions& options, const ModelConfig& config);

// Counters and sizes of an engine. All but progress, the submissions in waiting_sequences and
// tokens_per_second are a snapshot of one moment of the engine's thread.
struct EngineStats {
  uint64_t progress = 0;  // advances at every computed layer
  int waiting_sequences = 0;
  int running_sequences = 0;   // sequences in the batch that are not paused
  int runnable_sequences = 0;  // running ones that did not sit the step out for lack of a block
  int64_t waiting_tokens = 0;  // tokens still to be prefilled here
  int total_blocks = 0;
  int used_blocks = 0;      // blocks that sequences hold
  int reserved_blocks = 0;  // blocks that are reserved and not yet taken
  int free_blocks = 0;      // blocks that are neither used nor reserved
  int cached_blocks = 0;    // free blocks that are kept for the prefix they hold
  uint64_t preemptions = 0;
  uint64_t prompt_tokens_computed = 0;
  uint64_t prompt_tokens_cached = 0;
  uint64_t generated_tokens = 0;
  double tokens_per_second = 0;  // tokens prefilled and decoded, over the last 4 seconds
};

// Runs sequences step by step. A sequence lives like this: a caller draws an id, fills in a
// SequenceRequest and calls Submit. From then on the engine tells how the sequence goes by the
// events of sequence_request.h. A kReceive sequence also needs OpenReceive and Commit. The sequence
// ends by itself (Finished, Failed), or by Release, or choice by choice by Stop.
//
// Thread rule: one thread, the engine's, calls Step and WaitForWork; every event is delivered on
// it. All other functions may be called from any thread, inside an event too. Those that ask for
// something only enqueue it (mailbox.h), and the next Step takes it. Stats reads a snapshot.
class Engine {
 public:
  // Owns the model and the KV cache, which it makes. Borrows the backend. INVALID_ARGUMENT names
  // the option that is wrong, RESOURCE_EXHAUSTED the memory that lacks.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(std::unique_ptr<Transformer> model,
                                                        Backend& backend,
                                                        const EngineOptions& options);
  ~Engine();

  const EngineOptions& options() const;  // with every default filled in
  EngineLimits limits() const;           // limits of every request
  const ModelConfig& model_config() const;
  KvCache& cache();
  // The generation of a block: it advances each time the block is given out anew. Does not wait.
  uint32_t BlockGeneration(int32_t block) const;
  // The pages that the prefix cache held after the last step. Empty without a prefix cache.
  const PrefixPages& prefix_pages() const;

  SequenceId NextId();
  // INVALID_ARGUMENT: FindMisfit says why the request can never run here. RESOURCE_EXHAUSTED:
  // max_waiting sequences wait already. No event is delivered after an error. REQUIRES: the request
  // IsWellFormed; `id` is from NextId and was not submitted before.
  absl::Status Submit(SequenceId id, SequenceRequest request);
  // kReceive, after SequenceAdmitted: turns the reservation into blocks. The first of them are
  // those that hold K and V already. BlocksGranted answers. `kv_numerics` names the numerics that K
  // and V are made under. Empty: the bytes are those that this engine would compute, and only then
  // the prefix cache serves them and enters them. Otherwise two attempts have an equal text only
  // where their bytes are equal.
  void OpenReceive(SequenceId id, std::string kv_numerics);
  // kReceive, after BlocksGranted, once K and V from start_token on are written: the sequence joins
  // the batch at the next step. `first_tokens` [choices] are its next outputs, one for each of the
  // request's choices, sampled where the prompt was prefilled. TokenProduced does not tell them
  // again. Tokens that do not fit end the sequence by SequenceFailed.
  void Commit(SequenceId id, std::vector<OutputToken> first_tokens);
  // A paused sequence leaves the batch with all its choices and keeps its blocks.
  void SetPaused(SequenceId id, bool paused);
  // Ends one choice; the others go on. Where it is the last one that lives, this is Release, with
  // the same REQUIRES.
  void Stop(SequenceId id, int choice);
  // Ends the sequence in any state. SequenceReleased answers, after the steps in flight (two at
  // most) are done and the blocks are given back. Nothing answers for an id that is unknown or has
  // ended. `resume_tokens`, for a kReceive sequence before Commit: retains the pages before that
  // token, and the pages that were held at the start, for the next sequence of the same resume_key
  // alone. REQUIRES: no thread still reads or writes the sequence's blocks.
  void Release(SequenceId id, std::optional<int> resume_tokens = std::nullopt);

  EngineStats Stats() const;

  // Takes what was enqueued, chooses a batch, runs it and applies the results. With steps_ahead it
  // applies those of the step before while this one runs. Returns false when there was nothing to
  // compute and no result to wait for.
  bool Step();
  // Returns when something was enqueued, Wake was called, a retained prefix expires or `timeout`
  // has passed.
  void WaitForWork(absl::Duration timeout);
  // Makes WaitForWork return.
  void Wake();

 private:
  struct Rep;
  explicit Engine(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
