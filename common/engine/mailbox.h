// What other threads ask of an engine, until its own thread takes it.
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
    std::optional<std::string> open_receive;         // kv_numerics
    std::optional<std::vector<OutputToken>> commit;  // the first tokens, by choice
    std::optional<bool> paused;
    std::set<int> stop = {};  // choices
    bool release = false;
    std::optional<int> resume_tokens;  // of the release
  };
  struct Contents {
    std::vector<Submission> submissions;     // oldest first
    std::map<SequenceId, Control> controls;  // come after the submissions
  };

  explicit Mailbox(int max_waiting) : max_waiting_(max_waiting) {}

  // RESOURCE_EXHAUSTED when max_waiting sequences are submitted and not admitted.
  absl::Status Submit(Submission submission);
  // Dropped where `id` does not live.
  void OpenReceive(SequenceId id, std::string kv_numerics);
  void Commit(SequenceId id, std::vector<OutputToken> first_tokens);
  void SetPaused(SequenceId id, bool paused);
  void Stop(SequenceId id, int choice);
  void Release(SequenceId id, std::optional<int> resume_tokens = std::nullopt);

  Contents Take();
  // Until there is something to take, Wake() is called or `timeout` (less than a year) has passed.
  void Wait(absl::Duration timeout);
  void Wake();

  // The engine's thread tells: one that was submitted waits no more (once), or does not live any
  // more.
  void Admitted();
  void Ended(SequenceId id);

  int submissions() const;  // not taken

 private:
  // Changes what is asked of `id` and wakes the engine's thread; nothing for one that does not
  // live.
  template <typename Change>
  void Ask(SequenceId id, Change change);

  const int max_waiting_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  int waiting_ = 0;
  std::set<SequenceId> living_;
  Contents contents_;
  bool wake_ = false;
};

}  // namespace baton
