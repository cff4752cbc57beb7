// The life of one request in the router, as a pure state machine.
//
//   choosing -> opening (Decode is open, not accepted) -> prefilling -> decoding (committed) ->
//   finishing -> done
//
// The decode worker's Accepted comes before Prefill. The first token is delivered from whichever
// worker's copy comes first; unequal copies end the request INTERNAL. Once the decode worker has
// committed, nothing that happens to the prefill worker matters. With one token to generate no
// decode worker is involved; with a local prefill no prefill worker.
//
// Whatever ends an attempt early (a worker's death, a broken transfer, a refusal, a drain) is
// answered by the next attempt: it begins with the prompt and every token accepted so far, so that
// the client sees one stream (request_machine_resume.cc). The Decode call of a broken hand-off
// stays open until the next attempt has reached that worker, which takes over the pages it holds.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "router/attempt_history.h"
#include "router/choice_output.h"
#include "router/request_events.h"

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
};

// Not thread-safe. `table` outlives it. Ends with exactly one Complete or Fail; after that every
// event is ignored and nothing is asked for.
class RequestMachine {
 public:
  RequestMachine(RequestSpec spec, const TokenTable& table, const RequestMachineOptions& options);

  // First of all, once.
  RequestActions Start(absl::Time now);
  // `now` never goes back.
  RequestActions Handle(const RequestEvent& event, absl::Time now);

  bool done() const { return phase_ == Phase::kDone; }
  // Tokens accepted for a choice, held-back ones included: what a further attempt continues from.
  const std::vector<internal::v1::OutputToken>& log(uint32_t choice) const;
  // Of the running attempt: the prompt is computed and its prefill worker has room for another.
  bool prompt_computed() const;
  // A worker has promised its memory, or did in an earlier attempt: the request is in the system.
  bool admitted() const { return admitted_; }
  uint32_t attempt() const { return attempt_; }
  // What ended the attempt before; OK in the first.
  const absl::Status& last_failure() const { return failure_; }
  const RequestSpec& spec() const { return spec_; }
  const v1::Usage& usage() const { return usage_; }
  const v1::RequestTimings& timings() const { return timings_; }

 private:
  friend struct RequestMachineState;  // of a test that counts transitions
  enum class Phase { kChoosing, kOpening, kPrefilling, kDecoding, kFinishing, kDone };
  enum class Source { kPrefill, kDecode };

  struct Choice {
    ChoiceOutput output;
    std::vector<internal::v1::OutputToken> log;
    size_t base = 0;              // log.size() when the attempt began
    size_t next_from_decode = 0;  // output index that the decode worker sends next
    bool prefill_copy_seen = false;
    bool decode_finished = false;
  };

  void On(const WorkersChosen& event);
  void On(const Abandoned& event);
  void On(const DecodeMessage& event);
  void On(const DecodeEnded& event);
  void On(const PrefillMessage& event);
  void On(const PrefillEnded& event);
  void On(const ClientCancelled& event);
  void On(const ClientBehind& event);
  void On(const ClientCaughtUp& event);
  void On(const TimerFired& event);

  void AskForWorkers();
  void Accepted(const internal::v1::DecodeAccepted& accepted);
  void TakenUp();   // by a worker: it no longer waits for one
  void EndQueue();  // it has its workers
  void Committed(bool exact);
  void Finished(const internal::v1::PrefillFinished& finished);
  void Finished(const internal::v1::DecodeFinished& finished);

  // Checks a token, logs it and delivers what it lets through.
  void TakeToken(const internal::v1::OutputToken& token, Source source);
  absl::Status CheckToken(const internal::v1::OutputToken& token, Source source);
  void Append(Choice& choice, const internal::v1::OutputToken& token);
  // One choice has ended: asks the decode worker to stop where it does not know yet.
  void ChoiceEnded(const Choice& choice, uint32_t index);
  // Completes once the workers have told where the time went.
  void MaybeComplete();
  void CompleteNow();

  // The running attempt has ended early: the next one, or the end of the request.
  void BreakPrefill(const absl::Status& cause);
  void BreakDecode(const absl::Status& cause);
  struct Breakage {
    absl::Status failure;  // as the client is told if no attempt follows
    std::optional<AttemptHistory::Place> died{};
    std::vector<uint64_t> avoid{};  // workers
    uint64_t prefer_decode = 0;
  };
  void Resume(Breakage breakage);
  void BeginNextAttempt();
  void CancelOldDecode();
  // Whether the chosen workers go on with the very numbers of the tokens so far.
  void ContinueNumerics();
  void SendFlow();
  void FailWith(absl::Status status);
  void CancelCalls();

  internal::v1::SequenceSpec MakeSequence() const;
  uint32_t remaining_tokens() const;
  absl::Time NextTimer() const;
  void Ask(RequestAction action) { actions_.push_back(std::move(action)); }

  RequestSpec spec_;
  const TokenTable& table_;
  const RequestMachineOptions options_;
  std::vector<Choice> choices_;  // [sampling.n]

  Phase phase_ = Phase::kChoosing;
  uint32_t attempt_ = 1;
  WorkersChosen workers_;
  bool admitted_ = false;
  bool accepted_ = false;
  bool decode_open_ = false;
  bool prefill_open_ = false;
  bool prefill_finished_ = false;
  bool committed_ = false;
  bool paused_ = false;
  uint32_t computed_tokens_ = 0;  // of the prompt, as last reported
  bool committed_exact_ = true;   // the hand-off lost nothing

  AttemptHistory history_;
  WorkerNeeds needs_;          // of this attempt
  absl::Status failure_;       // what ended the attempt before
  absl::Status why_it_waits_;  // what ended the last attempt that a worker had taken
  struct OldDecode {
    uint32_t attempt = 0;
    uint64_t worker_id = 0;
  };
  std::optional<OldDecode> old_decode_;  // the call of an earlier attempt that is still open
  std::string numerics_;                 // of whoever computed the first token
  bool exact_so_far_ = true;             // the attempts before, and that they go on in this one
  absl::Time waits_since_;               // for its workers
  absl::Duration queued_before_ = absl::ZeroDuration();  // in the attempts before

  // Set while something is waited for; InfiniteFuture otherwise.
  absl::Time choose_at_ = absl::InfiniteFuture();
  absl::Time accept_by_ = absl::InfiniteFuture();
  absl::Time commit_by_ = absl::InfiniteFuture();
  absl::Time complete_by_ = absl::InfiniteFuture();
  absl::Time read_by_ = absl::InfiniteFuture();
  absl::Status prefill_end_;  // why the prefill's call ended, while the commit is waited for
  std::optional<absl::Status>
      decode_end_;  // why the decode's call ended, while the first token is waited for
  absl::Time timer_ = absl::InfiniteFuture();  // as last asked for

  v1::Usage usage_;
  v1::RequestTimings timings_;
  absl::Time now_;          // of the event being handled
  RequestActions actions_;  // of the event being handled
};

}  // namespace baton
