// Streams that clients have opened and not yet sent a message on. They hold nothing but themselves,
// so they must count in no bound that could keep others out, and must not stay. Calls whose clients
// do not take the end of the answer are ended in the same way (awaited_call.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/alarm.h"

namespace baton {

// Thread-safe. May be destroyed while streams are silent: they are not ended then.
class SilentStreams {
 public:
  struct Limits {
    absl::Duration time = absl::Seconds(2);  // a stream that is silent for longer is ended
    size_t streams = 1024;                   // most streams: beyond that the oldest is ended
  };
  // Ends a stream: DEADLINE_EXCEEDED, or RESOURCE_EXHAUSTED for the oldest of too many, both with
  // the reason SILENT_STREAM. Called at most once, on any thread, without a lock. May be called
  // while Spoke is, not after.
  using End = std::function<void(const absl::Status&)>;

  explicit SilentStreams(const Limits& limits);
  ~SilentStreams();

  // A stream was opened. The returned id is not 0.
  uint64_t Add(End end);
  // Its first message has come, or its end. May be called several times for an id.
  void Spoke(uint64_t id);

 private:
  struct Stream {
    End end;
    absl::Time overdue;  // steady; from then on it is ended
  };
  // Shared with the alarm, which calls back after it was cancelled too.
  struct Open : std::enable_shared_from_this<Open> {
    explicit Open(const Limits& given) : limits(given) {}

    // The alarm has come: ends the streams that were silent for too long, and awaits the next.
    void EndOverdue();
    void SetAlarm(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

    const Limits limits;
    absl::Mutex mutex;
    std::map<uint64_t, Stream> streams ABSL_GUARDED_BY(mutex);  // the oldest first
    uint64_t next_id ABSL_GUARDED_BY(mutex) = 1;
    // One for all, since nearly every stream speaks at once. Set for the oldest of today or for one
    // that was older; null only while no stream is silent.
    std::unique_ptr<grpc::Alarm> alarm ABSL_GUARDED_BY(mutex);
  };

  const std::shared_ptr<Open> open_;
};

}  // namespace baton
