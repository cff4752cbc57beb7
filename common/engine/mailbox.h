// What other threads ask of an engine, until its own thread takes it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/engine/sequence_request.h"

namespace baton {

// Thread-safe. Bounded: submissions by max_waiting, everything else by the living sequences, of
// which each has at most one Control; asking twice before it is taken is asking once.
class Mailbox {
 public:
  struct Submission {
    SequenceId id = 0;
    SequenceRequest request;
    absl::Time submitted;
  };
  struct Control {
    bool open_receive = false;
    std::optional<OutputToken> commit;
    std::optional<bool> paused;
    bool release = false;
  };
  struct Contents {
    std::vector<Submission> submissions;     // oldest first
    std::map<SequenceId, Control> controls;  // come after the submissions
  };

  explicit Mailbox(int max_waiting) : max_waiting_(max_waiting) {}

  // RESOURCE_EXHAUSTED when max_waiting sequences are submitted and not admitted.
  absl::Status Submit(Submission submission);
  // Dropped where `id` does not live.
  void OpenReceive(SequenceId id);
  void Commit(SequenceId id, OutputToken first_token);
  void SetPaused(SequenceId id, bool paused);
  void Release(SequenceId id);

  Contents Take();
  // Until there is something to take, Wake() is called or `timeout` has passed.
  void Wait(absl::Duration timeout);
  void Wake();

  // The engine's thread tells: one that was submitted waits no more (once), or does not live any
  // more.
  void Admitted();
  void Ended(SequenceId id);

  int submissions() const;  // not taken

 private:
  bool SomethingThere() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Control* ControlOf(SequenceId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int max_waiting_;
  mutable absl::Mutex mutex_;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<SequenceId> living_ ABSL_GUARDED_BY(mutex_);
  Contents contents_ ABSL_GUARDED_BY(mutex_);
  bool wake_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace baton
