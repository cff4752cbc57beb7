// A request to an engine to run one sequence, and the events that report its progress.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "common/backend/sampling_params.h"
#include "common/grammar/grammar_state.h"
#include "common/speculation/speculation_mode.h"

namespace baton {

// Names one sequence in one engine. The caller draws it from Engine::NextId(); no id is used twice.
using SequenceId = uint64_t;

// The order of the events, by mode (x* stands for any number of x, x? for one or none):
//
//   kPrefillOnly  Admitted  PrefillStarted  (LayerComputed*  PromptScored?  ChunkComputed)*
//                 TokenProduced  Finished
//   kLocal        Admitted  PrefillStarted  (PromptScored?  ChunkComputed)*  TokenProduced*
//                 Finished
//   kReceive      Admitted  BlocksGranted  TokenProduced*  Finished
//
// The layers of a chunk ascend. BlocksGranted follows OpenReceive, and the tokens follow Commit.
// In kLocal and kReceive Preempted may come before any TokenProduced. The recomputed tokens are
// reported only as ChunkComputed, and only until the first TokenProduced.
// Failed may take the place of any event after Admitted.
// Release may be called at any moment. The results of the steps in flight may still be reported
// before its answer, Released.
// Alive may come anywhere between Submit and the last event.
// In kLocal and kReceive no event but Released follows Finished or Failed. In no mode does one
// follow Released. A kReceive sequence that fails before Commit still has to be released.
//
// A sequence of several choices has one series of events up to the last ChunkComputed or
// BlocksGranted. From then on each choice has events of its own, which name it. Not so in
// kPrefillOnly: the sequence stays one, and only TokenProduced comes once for each choice.

// The sequence's blocks are reserved: the blocks for its tokens and, in the modes that decode, one
// block of head-room for each choice.
struct SequenceAdmitted {
  // Tokens of the prefix that the cache holds already: a multiple of 16, never the last token.
  // kReceive: an estimate; BlocksGranted has the number that counts.
  int cached_tokens = 0;
};
// kReceive, after OpenReceive: the blocks to write the KV of all token_ids into.
struct BlocksGranted {
  std::vector<int32_t> block_table;  // [blocks for all tokens]
  // The first token to write, a multiple of 16. The KV before it is held already, and other
  // sequences may read it.
  int start_token = 0;
};
struct PrefillStarted {
  int cached_tokens = 0;  // tokens of the prefix that the cache holds: they are not computed
};
// kPrefillOnly: K and V of tokens [first_token, first_token + token_count) in `layer` are in the
// cache with their page CRCs (KvCache::PageCrc). They do not change before Release. first_token is
// a multiple of 64, or the first token that was computed.
// A cache in a device's memory holds them once the operations before the mark `copies_after` are
// done (DeviceCopies), and has no CRCs of them yet.
struct LayerComputed {
  int layer = 0;
  int first_token = 0;
  int token_count = 0;
  absl::Span<const int32_t> block_table;  // valid during the call
  uint64_t copies_after = 0;
};
// All layers of the tokens before end_token are computed.
struct ChunkComputed {
  int end_token = 0;
};
// The log probabilities of prompt tokens from `first_token` on, each given the tokens before it,
// for a request with SamplingParams::prompt_logprobs. Together the events cover all prompt tokens
// but the first, in order and once, even if a preemption has the prompt computed twice.
struct PromptScored {
  int first_token = 0;
  std::vector<TokenLogprobs> tokens;  // not empty
};
// Guesses depend on time, as durations do.
struct TokenProduced {
  OutputToken token;
  int choice = 0;
  bool guessed = false;  // a guess that came true
  // Rows of the step that were computed in vain: guesses that were refused, or that followed a
  // token that ends the sequence. Set on the last token of the step.
  int refused_guesses = 0;
};
struct SequencePreempted {
  int choice = 0;
};
// kReceive and kLocal: the last token was produced. The blocks are given back as soon as no step in
// flight may touch them.
// kPrefillOnly: the first token was produced. The blocks are held until Release.
struct SequenceFinished {
  absl::Duration queue;  // from Submit (kReceive: from Commit) to the first step
  // kPrefillOnly and kLocal: from the start of the first chunk to the end of the last one.
  absl::Duration prefill;
  absl::Duration decode;  // from the first decode step to the last token
  int preemptions = 0;
  int choice = 0;
};
// This sequence alone failed. Its blocks are given back as after SequenceFinished: those of
// kPrefillOnly, which a peer may be reading, are held until Release.
struct SequenceFailed {
  absl::Status status;
  int choice = 0;
};
// The answer to Release, and to Stop of one choice, of a sequence that lived. Its blocks are given
// back. A sequence lives from Submit until Finished or Failed (kLocal, kReceive), or until
// Released. Each choice of a sequence lives and ends in the same way.
struct SequenceReleased {
  SequenceFinished timings;  // measured up to the release
};

// The engine has the sequence, in whatever state it is. Comes every EngineOptions::sign_interval,
// once for all choices. A long step delays it by a layer at most.
struct SequenceAlive {};

using SequenceEvent =
    std::variant<SequenceAdmitted, BlocksGranted, PrefillStarted, LayerComputed, ChunkComputed,
                 PromptScored, TokenProduced, SequencePreempted, SequenceFinished, SequenceFailed,
                 SequenceReleased, SequenceAlive>;

struct SequenceRequest {
  enum class Mode {
    kPrefillOnly,  // compute the KV of all tokens and one output token, then hold the blocks
    kReceive,      // reserve blocks; the KV comes from elsewhere; then decode
    kLocal,        // prefill and decode here
  };
  Mode mode = Mode::kLocal;
  std::vector<int32_t> token_ids;  // prompt, then output accepted by earlier attempts; not empty
  int prompt_length = 0;  // tokens of the original prompt; outputs, penalties and the random
                          // generator count from its end
  // The request asks for the choices [choice, choice + choices), below kMaxChoices. They are one
  // sequence until their first tokens are sampled. From then on each choice is a sequence that
  // decodes, pauses, is preempted and ends alone; they share the blocks before.
  int choice = 0;
  int choices = 1;
  SamplingParams sampling;
  std::string cache_salt;
  // Names the request that this sequence is an attempt at. The KV that a broken attempt of the same
  // name left in this engine is taken over. Empty: nothing is taken over or left.
  std::string resume_key;
  // kReceive: the name of the KV's writer, for Engine::Distrust. Empty: unknown.
  std::string kv_source;
  // The state of the output's grammar after all of token_ids. Not set: every token may come next.
  std::optional<GrammarState> grammar = std::nullopt;
  // Not set: the engine's default. An engine without speculation ignores it.
  std::optional<SpeculationMode> speculation = std::nullopt;
  bool isolate = false;  // runs alone in every batch; others wait until it ends or is paused
  // Called on the engine's thread. It must not block. It may call the thread-safe functions of the
  // engine.
  std::function<void(const SequenceEvent&)> on_event;
};

}  // namespace baton
