// One attempt at computing some choices of a request, as a value: the next attempt is a new value.
//
//   Choosing -> Opening (Decode is open, not accepted) -> Prefilling -> Decoding (committed) ->
//   Finishing (every choice has ended) -> Over
//
// The decode worker's Accepted comes before Prefill. With one token to generate no decode worker is
// involved: Choosing -> Prefilling -> Finishing. With a local prefill no prefill worker is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "router/request/events.h"
#include "router/request/hedge.h"
#include "router/request/request_state.h"
#include "router/request/silence.h"

namespace baton {

// One choice in an attempt.
struct ChoiceProgress {
  uint32_t choice = 0;           // its index in the request
  size_t base = 0;               // tokens that it had when the attempt began
  size_t next_from_decode = 0;   // output index that the decode worker sends next
  bool prefill_sent = false;     // the prefill worker has sent its one token
  bool decode_finished = false;  // whether the decode worker has reported its times
};

// The calls of an attempt, and the facts that the workers have reported in them.
struct AttemptCalls {
  bool decode_open = false;
  bool prefill_open = false;
  bool prefill_finished = false;  // whether the prefill worker has reported its times
  bool decode_exact = true;       // as the decode worker says at each choice's end
  // Prompt tokens that are computed, as last reported. None while the prompt waits on its worker.
  std::optional<uint32_t> computed_tokens{};
  Silence decode_silence{};  // stopped while the client is behind: the call may not be read then
  Silence prefill_silence{};
};

struct Attempt {
  struct Choosing {
    std::optional<absl::Time> ask_at;  // when placement is asked for workers; none once it is
  };
  struct Opening {};
  struct Prefilling {
    // By when the decode worker commits, or the attempt has broken; none while the prompt is
    // computed.
    std::optional<absl::Time> commit_by;
    absl::Status prefill_end;  // why the Prefill call ended, while the commit is waited for
    // Why the Decode call ended, while the first token is waited for: it may end the request.
    std::optional<absl::Status> decode_end;
  };
  struct Decoding {
    bool exact;  // the hand-off lost nothing
  };
  // The workers' accounts of their time are waited for.
  struct Finishing {
    std::optional<bool> exact;  // the hand-off lost nothing; none: nothing was committed
    absl::Time finish_by;       // when the accounts are waited for no longer
  };
  struct Over {};
  using State = std::variant<Choosing, Opening, Prefilling, Decoding, Finishing, Over>;

  uint32_t number = 0;                    // its own in the whole request
  WorkerNeeds needs{};                    // what the attempts before ask of placement; see NeedsOf
  WorkersChosen workers{};                // empty while Choosing
  std::vector<ChoiceProgress> choices{};  // computed together; equally many tokens until they part
  bool isolate = false;                   // it runs alone on its workers
  bool exact = true;         // the tokens before it are exact, and its own have their numerics
  absl::Time waits_since{};  // when it began to wait for its workers
  absl::Duration queued{};   // how much of that wait the client's account has
  std::optional<absl::Time> accept_by{};  // by when a worker takes it; none once one has
  AttemptCalls calls{};
  Hedge hedge{};
  State state = Choosing{};

  template <typename Stage>
  bool Is() const {
    return std::holds_alternative<Stage>(state);
  }
  template <typename Stage>
  Stage* Get() {
    return std::get_if<Stage>(&state);
  }

  // A worker has taken it: its decode worker has accepted or, if there is none, its prefill
  // worker has started.
  bool accepted() const { return !accept_by.has_value(); }
  bool local() const { return !workers.prefill.has_value(); }
  bool has_decode() const { return workers.decode.has_value(); }
  // Whether the hand-off lost nothing; none before the decode worker has committed.
  std::optional<bool> hand_off_exact() const;
  bool committed() const { return hand_off_exact().has_value(); }
  // The decode worker has the prompt, or computes it itself.
  bool decodes() const { return committed() || local(); }
  // Every choice has a token from this attempt. `request` is the one that it belongs to.
  bool PromptComputed(const RequestState& request) const;
  bool AllEnded(const RequestState& request) const;
  // Whether the decode worker has reported its times for every choice.
  bool DecodeTold() const;
  // Whether no worker's times are missing that may still come.
  bool AllTold() const;
  // Whether the outputs that end in it are exact, those of the attempts before included. REQUIRES:
  // Finishing.
  bool OutputsExact() const;
  // Returns the index of the choice in `choices`; nullopt if the attempt does not compute it.
  std::optional<size_t> Find(uint32_t choice) const;
  const char* stage() const;  // one of kStage...; REQUIRES: not Finishing or Over
  // The time at which a worker on which the attempt depends counts as silent, unless it sends a
  // message before. Once the decode worker has committed, the prefill worker may be silent.
  absl::Time SilentAt() const;
  // The earliest time at which something is to be done. REQUIRES: not Over.
  absl::Time NextTimer() const;
};

// The choices of an attempt that begins now, with the tokens that the request has.
std::vector<ChoiceProgress> BeginChoices(const RequestState& request,
                                         const std::vector<ChoiceProgress>& choices);

}  // namespace baton
