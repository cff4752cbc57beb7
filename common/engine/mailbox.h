// Requests of other threads to an engine, kept until the engine's own thread takes them.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "common/engine/audit_order.h"
#include "common/engine/checked_sequence.h"
#include "common/engine/sequence_request.h"

namespace baton {

// Any thread may ask for something: Submit, OpenReceive, Commit, SetPaused, Stop, Release,
// Distrust. The engine's thread takes it all at once at the beginning of each step. A sequence id
// lives here from Submit until the engine calls Ended; what is asked of an id that does not live is
// dropped.
//
// Bounded: at most max_waiting submissions, one Control for each living sequence, and the sources
// that the engine's owner distrusts. Asking the same twice before it is taken is asking once; of
// different values the later one holds.
//
// Thread rule: thread-safe. Take, Wait, Admitted and Ended are the engine's thread's.
class Mailbox {
 public:
  struct Submission {
    SequenceId id = 0;
    CheckedSequence sequence;
    absl::Time submitted;
  };
  struct Control {
    std::optional<std::string> open_receive;         // its kv_numerics
    std::optional<std::vector<OutputToken>> commit;  // first tokens, by choice
    std::optional<AuditOrder> audit;                 // audit that the commit asks for
    std::optional<bool> paused;
    std::set<int> stop = {};  // choices to stop
    bool release = false;
    std::optional<int> resume_tokens;  // argument of the release
  };
  struct Contents {
    std::vector<Submission> submissions;     // oldest first
    std::map<SequenceId, Control> controls;  // executed after the submissions
    std::set<std::string> distrusted;        // sources, handled last
  };

  explicit Mailbox(int max_waiting) : max_waiting_(max_waiting) {}

  // RESOURCE_EXHAUSTED when max_waiting sequences are submitted and not admitted. REQUIRES: the id
  // was not submitted before.
  absl::Status Submit(Submission submission);
  void OpenReceive(SequenceId id, std::string kv_numerics);
  void Commit(SequenceId id, std::vector<OutputToken> first_tokens,
              std::optional<AuditOrder> audit = std::nullopt);
  void SetPaused(SequenceId id, bool paused);
  void Stop(SequenceId id, int choice);
  void Release(SequenceId id, std::optional<int> resume_tokens = std::nullopt);
  void Distrust(std::string source);

  // Everything that was asked for since the last Take.
  Contents Take();
  // Returns when there is something to take, Wake() was called or `timeout` has passed.
  void Wait(absl::Duration timeout);
  void Wake();

  // A submitted sequence does not wait any more. Called once for each, also when it is released
  // before it was admitted.
  void Admitted();
  // The sequence does not live any more.
  void Ended(SequenceId id);

  int submissions() const;  // submissions that were not taken yet

 private:
  // Applies `change` to the Control of `id` and wakes the engine's thread. Does nothing where `id`
  // does not live.
  template <typename Change>
  void Ask(SequenceId id, Change change);

  const int max_waiting_;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  int waiting_ = 0;  // sequences submitted and not admitted
  std::set<SequenceId> living_;
  Contents contents_;
  bool wake_ = false;
};

}  // namespace baton
