// The state that all choices of one request share: their outputs, the delivered part, and the
// account that the client receives at the end.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "router/request/choice_output.h"
#include "router/request/events.h"
#include "router/request/prompt_logprobs.h"

namespace baton {

struct RequestMachineOptions {
  // Time in which a chosen worker must accept a request, and for which attempts are repeated that
  // never begin to decode.
  absl::Duration worker_timeout = absl::Seconds(30);
  // Time for which a request may wait for busy workers, in the router's queue or for the memory of
  // a decode worker, before `worker_timeout` begins.
  absl::Duration queue_time = absl::ZeroDuration();
  absl::Duration stall_timeout = absl::Seconds(30);  // longest time without reading
  // A call to a worker without any message for so long is lost. The time counts from the last
  // message. A worker sends one at least every 10 s (SignOfLife), whatever its sequence waits for.
  absl::Duration silence_timeout = absl::Seconds(30);
  // A request may go without a token, and without a step of its prompt, for so long. This bounds
  // requests without a deadline whose workers give signs of life and nothing else.
  absl::Duration progress_timeout = absl::Hours(1);
  // The wait for a late message of the other worker: after a Prefill call has broken behind its
  // first token, the decode worker may still report its commit; after a decode worker has given up
  // a hand-off, a first token may still come that ends the request.
  absl::Duration broken_attempt_wait = absl::Milliseconds(250);
  absl::Duration commit_wait = absl::Seconds(2);  // prefill finished -> committed
  // last token -> the workers' reports of their times
  absl::Duration timeline_wait = absl::Seconds(1);
  // A decode worker that has not reserved its blocks after this has none to give: with the next
  // report of all workers (kWatchInterval) the router knows who has. A hedged attempt begins then,
  // and again after twice as long each time, so that few ask however long it takes.
  absl::Duration accept_wait = absl::Milliseconds(300);
  // A hedged attempt begins when a preempted sequence has had no token for this time.
  absl::Duration preempted_wait = absl::Seconds(2);
  // Time in which the worker of a hedged attempt must accept it.
  absl::Duration hedged_accept_wait = absl::Milliseconds(250);

  // The time from which on an attempt that begins to wait at `now` waits no longer for a worker.
  absl::Time AcceptBy(absl::Time now) const { return now + queue_time + worker_timeout; }
};

// Returns the numerics of the worker that computes the prompt.
const std::string& NumericsOfPrompt(const WorkersChosen& workers);

// A time limit that counts from the last message is set anew only when it moves by this share of
// itself: otherwise each token would set the request's timer anew.
inline constexpr int kTimerSteps = 30;

// Belongs to one request machine, whose choices borrow it; not thread-safe.
struct RequestState {
  struct Choice {
    ChoiceOutput output;
    std::vector<internal::v1::OutputToken> log;  // accepted tokens, held-back ones included
  };

  RequestState(RequestSpec request, const TokenTable& token_table,
               const RequestMachineOptions& machine_options);

  // Logs a checked token that the log does not have, counts its guesses, and delivers the text that
  // is complete now.
  void Append(const internal::v1::OutputToken& token);
  // Makes the empty collection of the prompt log probabilities that an attempt has to send.
  PromptLogprobs NewPromptLogprobs() const;
  // Delivers the log probabilities at once in a stream, else keeps them for the final message.
  // REQUIRES: lacks_prompt_logprobs; `logprobs` is complete.
  void TakePromptLogprobs(PromptLogprobs logprobs);
  // The answer to a request whose choices have all ended.
  Complete MakeComplete();
  // A token has come, or a step of the prompt is computed.
  void Gained() {
    if (now - gained_at >= options.progress_timeout / kTimerSteps) gained_at = now;
  }
  // The request ends with `status`, unless it ended before.
  void Fail(absl::Status status);
  bool failed() const { return failure.has_value(); }
  void Ask(RequestAction action) { actions.push_back(std::move(action)); }

  bool Ended(uint32_t choice) const { return choices[choice].output.ended(); }
  // Whether `workers` compute with the very numerics of the tokens so far, if there are any.
  bool Continues(const WorkersChosen& workers) const;
  // For the client's account: the workers of an attempt; more time that it waited for them; prompt
  // tokens that its prefill found cached, of which the first attempt's count.
  void TellWorkers(const WorkersChosen& workers);
  void CountQueue(absl::Duration waited);
  void CountCachedTokens(uint32_t tokens);

  const RequestSpec spec;
  const TokenTable& table;
  const RequestMachineOptions options;
  std::vector<Choice> choices;  // [sampling.n]

  uint32_t breaks = 0;               // attempts that have ended early
  uint32_t last_attempt = 0;         // attempts of all choices draw their numbers in order
  std::set<uint32_t> gave_tokens;    // attempts that the log has tokens of
  bool lacks_prompt_logprobs;        // the client wants them, and no attempt has sent them all
  bool admitted = false;             // a worker has reserved its memory
  bool paused = false;               // the client is behind
  bool cached_tokens_known = false;  // the first prefill has said how many it found
  std::string numerics;              // those that computed the first token; empty before it
  std::string model;                 // model that gave the first token, as in WorkersChosen
  bool exact = true;                 // the choices that are done have exact outputs
  std::string system_fingerprint;    // as the workers chosen last have it
  absl::Status last_broken;          // what broke an attempt last
  absl::Status why_it_waits;         // the last break that explains why a worker is waited for
  std::optional<absl::Status> failure;
  std::optional<PromptLogprobs> prompt_logprobs;  // for the final message
  v1::Usage usage;
  v1::RequestTimings timings;
  absl::Time gained_at;    // about when Gained was called last; at first the begin
  absl::Time now;          // when the event came that is being handled
  RequestActions actions;  // what that event has led to so far
};

}  // namespace baton
