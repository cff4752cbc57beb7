// What an engine is asked to do with one sequence, and what it tells about it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "common/backend/sampling_params.h"

namespace baton {

// Names one sequence in one engine; drawn by the caller from Engine::NextId(), never used again.
using SequenceId = uint64_t;

// The events of one sequence, or of each of its choices, in this order:
//   kPrefillOnly  Admitted PrefillStarted ((LayerComputed, layers ascending)* ChunkComputed)*
//   TokenProduced Finished kLocal        Admitted PrefillStarted ChunkComputed* TokenProduced*
//   Finished kReceive      Admitted BlocksGranted (after OpenReceive) TokenProduced* (after Commit)
//   Finished
// Preempted may come before any TokenProduced of the last two; what is computed again is told only
// as ChunkComputed, and only until the first TokenProduced. Failed may take the place of anything
// after Admitted. After Finished or Failed of kLocal and kReceive, and after Released, nothing
// follows. Release may be asked at any moment: what the steps in flight make may still be told
// before Released.
//
// Of several choices everything up to the last ChunkComputed, BlocksGranted or LayerComputed is
// told once; from then on each has events of its own, which name it. kPrefillOnly stays one
// sequence: only its TokenProduced come for each choice, one after the other.

// The blocks for the sequence's tokens (and, in the decoding modes, head-room of one block) are
// promised: nobody else gets them.
struct SequenceAdmitted {
  // Prefix that is held already, a multiple of 16, never the last token. kReceive: as it is now;
  // what counts is BlocksGranted.
  int cached_tokens = 0;
};
// kReceive, after OpenReceive: the blocks to write the KV of all token_ids into.
struct BlocksGranted {
  std::vector<int32_t> block_table;  // [blocks for all tokens]
  int start_token = 0;               // from here on, a multiple of 16: others may read what is
                                     // before, which is held already
};
struct PrefillStarted {
  int cached_tokens = 0;
};
// K and V of tokens [first_token, first_token + token_count) in `layer` are in the cache, with
// their page CRCs (KvCache::PageCrc), and will not change before Release. Where the cache is in a
// device's memory they are there once the operations of the mark `copies_after` are done
// (DeviceCopies), and have no CRCs. first_token is a multiple of 64, or the first one computed.
struct LayerComputed {
  int layer = 0;
  int first_token = 0;
  int token_count = 0;
  absl::Span<const int32_t> block_table;  // valid during the call
  uint64_t copies_after = 0;
};
// All layers of the tokens before end_token.
struct ChunkComputed {
  int end_token = 0;
};
struct TokenProduced {
  OutputToken token;
  int choice = 0;
};
struct SequencePreempted {
  int choice = 0;
};
// kReceive and kLocal: the last token was produced, the blocks are given back as soon as no step in
// flight may touch them. kPrefillOnly: the first token was produced, the blocks are held until
// Release.
struct SequenceFinished {
  absl::Duration queue;    // submitted (kReceive: committed) -> first step
  absl::Duration prefill;  // kPrefillOnly and kLocal: first chunk started -> last computed
  absl::Duration decode;   // first decode step -> last token
  int preemptions = 0;
  int choice = 0;
};
// This sequence alone failed. Its blocks are given back likewise; those of kPrefillOnly, which a
// peer may be reading, are held until Release.
struct SequenceFailed {
  absl::Status status;
  int choice = 0;
};
// The answer to Release, and to Stop of one choice, of a sequence that lived: its blocks are given
// back. A sequence lives from Submit until Finished or Failed (kLocal, kReceive), or until
// Released; where it has several choices, each of them does.
struct SequenceReleased {
  SequenceFinished timings;  // until now
};

using SequenceEvent = std::variant<SequenceAdmitted, BlocksGranted, PrefillStarted, LayerComputed,
                                   ChunkComputed, TokenProduced, SequencePreempted,
                                   SequenceFinished, SequenceFailed, SequenceReleased>;

struct SequenceRequest {
  enum class Mode {
    kPrefillOnly,  // compute the KV of all tokens and one output token, then hold the blocks
    kReceive,      // promise blocks; the KV comes from elsewhere; then decode
    kLocal,        // prefill and decode here
  };
  Mode mode = Mode::kLocal;
  std::vector<int32_t> token_ids;  // prompt, then output accepted by earlier attempts; not empty
  int prompt_length =
      0;  // of the original prompt: outputs, penalties and generator count from here
  // It is computed once for the choices [choice, choice + choices), below kMaxChoices.
  // With their first tokens they part: the blocks before are shared, each goes on, pauses, is
  // preempted and ends as a sequence of one choice does.
  int choice = 0;
  int choices = 1;
  SamplingParams sampling;
  std::string cache_salt;
  // Names the request that this is an attempt at: what an earlier attempt left here serves it.
  // Empty: none did.
  std::string resume_key;
  bool isolate = false;  // alone in every batch; others wait until it ends or is paused
  // Called on the engine's thread; must not block; may call the engine's thread-safe functions.
  std::function<void(const SequenceEvent&)> on_event;
};

}  // namespace baton
