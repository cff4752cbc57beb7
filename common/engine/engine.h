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

#include "common/engine/audit_order.h"
#include "common/engine/checked_sequence.h"
#include "common/engine/engine_options.h"
#include "common/engine/engine_stats.h"
#include "common/engine/request_check.h"
#include "common/engine/sequence_request.h"
#include "common/kv/cache.h"
#include "common/kv/prefix_pages.h"
#include "common/model/transformer.h"

namespace baton {

// Runs sequences step by step. A sequence lives like this: a caller draws an id and calls Submit
// with a checked request. From then on the engine reports the sequence's progress by the events of
// sequence_request.h. A kReceive sequence also needs OpenReceive and Commit. The sequence ends by
// itself (Finished, Failed), or by Release, or choice by choice by Stop.
//
// Thread rule: one thread, the engine's, calls Step and WaitForWork; every event is delivered on
// it. All other functions may be called from any thread, inside an event too. Those that ask for
// something only enqueue it (mailbox.h), and the next Step takes it. Stats reads a snapshot.
class Engine {
 public:
  // Owns the models and the KV caches, which it makes. Borrows the backend. `draft`, which may be
  // null, guesses tokens; its KV cache has as many blocks as the model's. INVALID_ARGUMENT names
  // the option that is wrong, RESOURCE_EXHAUSTED the memory that lacks. REQUIRES: the draft model
  // has the model's vocabulary, and its heads take the KV type.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(
      std::unique_ptr<Transformer> model, Backend& backend, const EngineOptions& options,
      std::unique_ptr<Transformer> draft = nullptr);
  ~Engine();

  const EngineOptions& options() const;  // with every default filled in
  EngineLimits limits() const;           // limits of every request
  const ModelConfig& model_config() const;
  KvCache& cache();
  // The draft model's KV cache; null without a draft model.
  const KvCache* draft_cache() const;
  // The generation of a block: it advances each time the block is given out anew. Does not wait.
  uint32_t BlockGeneration(int32_t block) const;
  // The pages that the prefix cache held after the last step. Empty without a prefix cache.
  const PrefixPages& prefix_pages() const;

  SequenceId NextId();
  // RESOURCE_EXHAUSTED: max_waiting sequences wait already. No event is delivered after an error.
  // REQUIRES: `id` is from NextId and was not submitted before; the sequence was checked against
  // limits().
  absl::Status Submit(SequenceId id, CheckedSequence sequence);
  // kReceive, after SequenceAdmitted: turns the reservation into blocks, beginning with the cached
  // blocks that already hold K and V. BlocksGranted answers. `kv_numerics` names the numerics under
  // which the sender computes K and V. If it is empty, the bytes are those that this engine would
  // compute; only then are cached blocks used, and the received blocks entered into the prefix
  // cache. Otherwise two attempts give equal text only if their bytes are equal.
  void OpenReceive(SequenceId id, std::string kv_numerics);
  // kReceive, after BlocksGranted, once K and V from start_token on are written: the sequence joins
  // the batch at the next step. `first_tokens` [choices] are its next outputs, one for each of the
  // request's choices, sampled where the prompt was prefilled. TokenProduced does not repeat
  // them. Tokens that do not fit end the sequence by SequenceFailed. `audit`: compares a block
  // with what this engine computes; the sequence does not wait for that. REQUIRES of an audit:
  // can_audit(), and kv_numerics was empty.
  void Commit(SequenceId id, std::vector<OutputToken> first_tokens,
              std::optional<AuditOrder> audit = std::nullopt);
  // A paused sequence leaves the batch with all its choices and keeps its blocks.
  void SetPaused(SequenceId id, bool paused);
  // Ends one choice; the others go on. If it is the last choice that runs, this is Release, with
  // the same REQUIRES.
  void Stop(SequenceId id, int choice);
  // Ends the sequence in any state. SequenceReleased answers, after the steps in flight (two at
  // most) are done and the blocks are given back. Nothing answers for an id that is unknown or has
  // ended. `resume_tokens`, for a kReceive sequence before Commit: retains the pages before that
  // token, and the pages that were held at the start, for the next sequence of the same resume_key
  // alone. REQUIRES: no thread still reads or writes the sequence's blocks.
  void Release(SequenceId id, std::optional<int> resume_tokens = std::nullopt);

  // All KV that came from this SequenceRequest::kv_source is wrong. The prefix cache and what is
  // retained are emptied. Each sequence that has a block of it, or that had blocks which are not
  // known any more, ends by SequenceFailed with DATA_LOSS.
  void Distrust(std::string source);
  // Whether the host can read the cache, and so compare blocks.
  bool can_audit() const;

  EngineStats Stats() const;

  // Records the steps that decodes may have (first_steps.h), so that no request waits for a
  // recording. REQUIRES: no request was submitted yet.
  void RecordSteps();

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
