// What all choices of one request have in common: their outputs, what is delivered, and the account
// that the client gets at the end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "router/request/choice_output.h"
#include "router/request/request_events.h"

namespace baton {

struct RequestMachineOptions {
  // An admitted request's wait for an accepting worker, and how long attempts are repeated that
  // never come to decode.
  absl::Duration worker_timeout = absl::Seconds(30);
  absl::Duration stall_timeout = absl::Seconds(30);  // of a client that does not read
  // A prefill that broke after its first token: the decode worker may have committed, and says so
  // within this. Likewise a hand-off that the decode worker gave up: it may be for a first token
  // that ended the request.
  absl::Duration broken_attempt_wait = absl::Milliseconds(250);
  absl::Duration commit_wait = absl::Seconds(2);  // prefill finished -> committed
  absl::Duration timeline_wait =
      absl::Seconds(1);  // last token -> the workers' accounts of their time
  // A decode worker that has not promised its blocks after this has none to give: with the next
  // report of all workers (kWatchInterval) it is known who has. Then again after twice as long, and
  // so on, so that few ask however long it takes.
  absl::Duration accept_wait = absl::Milliseconds(300);
  // A preempted sequence without a token for so long may go on elsewhere.
  absl::Duration preempted_wait = absl::Seconds(2);
  absl::Duration trial_wait = absl::Milliseconds(250);  // for another worker to accept at once
};

// Of one request machine and its branches; not thread-safe.
struct RequestState {
  struct Choice {
    ChoiceOutput output;
    std::vector<internal::v1::OutputToken> log;  // accepted, held-back ones included
  };

  RequestState(RequestSpec request, const TokenTable& token_table,
               const RequestMachineOptions& machine_options);

  // A token that was checked and is none that was taken before: logs it and delivers what it lets
  // through.
  void Append(const internal::v1::OutputToken& token);
  // The answer to a request whose choices have all ended.
  Complete MakeComplete();
  // The request ends with `status`, unless it ended before.
  void Fail(absl::Status status);
  bool failed() const { return failure.has_value(); }
  void Ask(RequestAction action) { actions.push_back(std::move(action)); }

  const RequestSpec spec;
  const TokenTable& table;
  const RequestMachineOptions options;
  std::vector<Choice> choices;  // [sampling.n]

  uint32_t breaks = 0;        // of attempts
  uint32_t last_attempt = 0;  // numbers are drawn in order, by whichever choices
  bool admitted = false;      // a worker has promised its memory
  bool paused = false;        // the client is behind
  // Of the prompt, as whoever prefilled it first has said.
  bool cached_tokens_known = false;
  std::string numerics;            // of whoever computed the first token
  bool exact = true;               // of what is done
  std::string system_fingerprint;  // of whoever was chosen last
  absl::Status last_broken;        // what broke an attempt last
  std::optional<absl::Status> failure;
  v1::Usage usage;
  v1::RequestTimings timings;
  absl::Time now;          // of the event being handled
  RequestActions actions;  // of the event being handled
};

}  // namespace baton
