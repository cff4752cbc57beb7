// What computes some choices of a request, one attempt after another: all of them together until
// they part, from then on each alone.
//
//   choosing -> opening (Decode is open, not accepted) -> prefilling -> decoding (committed) ->
//   finishing (every choice has ended) -> done
//
// The decode worker's Accepted comes before Prefill. A first token is delivered from whichever
// worker's copy comes first; unequal copies end the request INTERNAL. Once the decode worker has
// committed, nothing that happens to the prefill worker matters. With one token to generate no
// decode worker is involved; with a local prefill no prefill worker.
//
// Whatever ends an attempt early (a worker's death, a broken transfer, a refusal, a drain) is
// answered by the next attempt: it begins with the prompt and every token accepted so far, so that
// the client sees one stream (request_branch_resume.cc). Several choices begin anew together as
// long as none of them has a token; after that each one that has not ended goes on alone, in a
// branch of its own.
//
// While an attempt waits for its decode worker to accept, or was preempted there for long, another
// one may be tried elsewhere beside it (request_branch_trial.cc): the first that is accepted goes
// on, so nobody gives up a place in a worker's line for nothing. The Decode call of a broken
// hand-off stays open until the next attempt has reached that worker, which takes over the pages it
// holds.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "router/request/attempt_history.h"
#include "router/request/request_events.h"
#include "router/request/request_state.h"

namespace baton {

// Not thread-safe. Borrows the request's state, where its actions, tokens and failures go. Ignores
// the events of attempts that are not its own.
class RequestBranch {
 public:
  // Of the choices [first_choice, first_choice + count).
  RequestBranch(RequestState& request, uint32_t first_choice, uint32_t count);

  // Asks for the first attempt's workers, which may have been waited for since `waits_since`.
  void Start(absl::Time waits_since);

  void On(const WorkersChosen& event);
  void On(const NoneElsewhere& event);
  void On(const DecodeMessage& event);
  void On(const DecodeEnded& event);
  void On(const PrefillMessage& event);
  void On(const PrefillEnded& event);
  // The time of NextTimer has come.
  void OnTimer();
  // The client has fallen behind, or has caught up.
  void FlowChanged();
  // All its choices have ended, and no account is waited for any longer.
  void FinishNow();
  // Ends its calls, in whatever state it is.
  void CancelCalls();

  bool done() const { return phase_ == Phase::kDone; }
  bool finishing() const { return phase_ == Phase::kFinishing; }
  uint32_t attempt() const { return attempt_; }
  bool Runs(uint32_t attempt) const;
  // The attempt's prompt is computed and its prefill worker has room for another; true of one that
  // does not run.
  bool prompt_computed(uint32_t attempt) const;
  const char* stage() const;  // one of kStage...: where it is
  absl::Time NextTimer() const;
  // Its choices that go on, each in a branch of its own, after it has broken and is done.
  std::vector<RequestBranch> TakeParts() { return std::exchange(parts_, {}); }

 private:
  friend struct RequestMachineState;  // of a test that counts transitions
  enum class Phase { kChoosing, kOpening, kPrefilling, kDecoding, kFinishing, kDone };
  enum class Source { kPrefill, kDecode };

  // Of one choice in the running attempt.
  struct Progress {
    uint32_t choice = 0;
    size_t base = 0;              // tokens when the attempt began
    size_t next_from_decode = 0;  // output index that the decode worker sends next
    bool prefill_copy_seen = false;
    bool decode_finished = false;
  };
  using OutputTokens = std::vector<internal::v1::OutputToken>;

  const OutputTokens& Log(const Progress& progress) const {
    return request_.choices[progress.choice].log;
  }
  bool Ended(const Progress& progress) const {
    return request_.choices[progress.choice].output.ended();
  }
  bool AllEnded() const;
  Progress* Find(uint32_t choice);  // null: none of this branch
  bool local() const { return !workers_.prefill.has_value(); }
  bool has_decode() const { return workers_.decode.has_value(); }

  bool prompt_computed() const;  // of the running attempt

  void AskForWorkers();
  WorkerNeeds Needs() const;
  void OpenDecodeCall(uint32_t attempt, const WorkersChosen& workers);
  void TellWorkers();
  void StartPrefillCall(const internal::v1::DecodeAccepted* accepted);
  void Accepted(const internal::v1::DecodeAccepted& accepted);
  void TakenUp();   // by a worker: it no longer waits for one
  void EndQueue();  // it has its workers
  void CachedTokens(uint32_t tokens);
  void Committed(bool exact);
  void Finished(const internal::v1::PrefillFinished& finished);
  void Finished(const internal::v1::DecodeFinished& finished);
  void SendFlow();

  // Checks a token, logs it and delivers what it lets through.
  void TakeToken(const internal::v1::OutputToken& token, Source source);
  absl::Status CheckToken(const internal::v1::OutputToken& token, Source source);
  // One choice has ended: asks the decode worker to stop where it does not know yet.
  void ChoiceEnded(const Progress& progress);
  // Ends once the workers have told where the time went.
  void MaybeFinish();
  bool DecodeTold() const;

  // The running attempt has ended early: the next one, or the end of the request.
  void BreakPrefill(const absl::Status& cause);
  void BreakDecode(const absl::Status& cause);
  struct Breakage {
    absl::Status failure;  // as the client is told if no attempt follows
    std::optional<AttemptHistory::Place::Phase> died{};
    std::vector<uint64_t> avoid{};  // workers
    uint64_t prefer_decode = 0;
  };
  void Resume(Breakage breakage);
  // Resume, where the choices have parted.
  void Part(const Breakage& breakage);
  // Whether the request goes on; if not, it has failed.
  bool MayResume(const Breakage& breakage);
  void BeginAttempt(uint32_t attempt);
  void CancelOldDecode();
  // Whether the chosen workers go on with the very numbers of the tokens so far.
  void ContinueNumerics();

  // Another attempt is tried; or was for nothing, and is again later.
  void BeginTrial();
  void EndTrial();
  void CancelTrial();
  // Its worker has accepted: it is the attempt that runs from here on.
  void TakeTrial(const internal::v1::DecodeAccepted& accepted);
  void OnTrialMessage(const DecodeMessage& event);
  // The sequence was preempted, or runs again.
  void Preempted();
  void RunsAgain();

  internal::v1::SequenceSpec MakeSequence(uint32_t attempt, const WorkersChosen& workers) const;
  uint32_t remaining_tokens() const;

  RequestState& request_;
  std::vector<Progress> choices_;

  Phase phase_ = Phase::kChoosing;
  uint32_t attempt_ = 0;
  WorkersChosen workers_;
  bool accepted_ = false;
  bool decode_open_ = false;
  bool prefill_open_ = false;
  bool prefill_finished_ = false;
  bool committed_ = false;
  // Of the prompt, as last reported; none while it waits on its worker, whose death says nothing.
  std::optional<uint32_t> computed_tokens_;
  bool committed_exact_ = true;  // the hand-off lost nothing
  bool told_exact_ = true;       // by the decode worker at the end

  AttemptHistory history_;
  WorkerNeeds needs_;          // of this attempt
  absl::Status failure_;       // what ended the attempt before
  absl::Status why_it_waits_;  // what ended the last attempt that a worker had taken
  struct OldDecode {
    uint32_t attempt = 0;
    uint64_t worker_id = 0;
  };
  std::optional<OldDecode> old_decode_;  // the call of an earlier attempt that is still open
  bool exact_so_far_ = true;             // the attempts before, and that they go on in this one
  absl::Time waits_since_;               // for its workers
  absl::Duration queued_;                // of this attempt, as counted already
  std::vector<RequestBranch> parts_;

  struct Trial {
    uint32_t attempt = 0;
    std::optional<WorkersChosen> workers{};  // none yet: asked for
    absl::Time until{};                      // then it was for nothing
  };
  std::optional<Trial> trial_;
  absl::Duration next_trial_;  // after the one before

  // Set while something is waited for; InfiniteFuture otherwise.
  absl::Time choose_at_ = absl::InfiniteFuture();
  absl::Time accept_by_ = absl::InfiniteFuture();
  absl::Time commit_by_ = absl::InfiniteFuture();
  absl::Time finish_by_ = absl::InfiniteFuture();
  absl::Time try_at_ = absl::InfiniteFuture();
  absl::Status prefill_end_;  // why the prefill's call ended, while the commit is waited for
  std::optional<absl::Status>
      decode_end_;  // why the decode's call ended, while the first token is waited for
};

}  // namespace baton
