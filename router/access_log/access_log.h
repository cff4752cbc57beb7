// The access log: one line for each request that has ended.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/base/bounded_queue.h"
#include "common/base/line_rate.h"
#include "common/base/timed_wait.h"
#include "common/net/metrics.h"
#include "router/access_log/access_line.h"
#include "router/access_log/line_sink.h"

namespace baton {

struct AccessLogOptions {
  std::string target = "none";  // a file's path, stderr, or none
  AccessFormat format = AccessFormat::kText;

  bool on() const { return target != "none"; }
};

// A thread writes the lines, from a bounded queue. A line is dropped, and counted in the metrics, if
// the queue is full, if it cannot be written, or if its caller has no identity and LineRate allows
// no more lines. The next line that is written says how many are missing before it. Thread-safe.
class AccessLog {
 public:
  static constexpr size_t kQueueBound = 1024;  // lines

  // Borrows `metrics`. An error is one line that names --access-log and the remedy. REQUIRES:
  // options.on(), and that SIGPIPE is ignored (IgnoreSigpipe).
  static absl::StatusOr<std::unique_ptr<AccessLog>> Start(const AccessLogOptions& options,
                                                          Metrics& metrics);
  // Closes, and waits for the thread, which a write to standard error may hold up.
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  // Never blocks. `now`: the steady clock.
  void Add(AccessRecord record, absl::Time now);
  // Drops what is added from now on, and waits until the queue is written, for at most `limit`.
  // False: it is not, and a caller that cannot wait for it ends the process.
  bool Close(absl::Duration limit);

 private:
  AccessLog(const AccessLogOptions& options, std::unique_ptr<LineSink> sink, Metrics& metrics);
  void Loop();
  void Write(const AccessRecord& record);
  void Drop(Counter& reason);

  const AccessLogOptions options_;
  const std::unique_ptr<LineSink> sink_;  // the thread's only
  bool failing_ = false;                  // the thread's only: the last write failed
  absl::Mutex mutex_;
  LineRate unknown_callers_ ABSL_GUARDED_BY(mutex_);
  BoundedQueue<AccessRecord> queue_{kQueueBound};
  std::atomic<uint64_t> left_out_ = 0;  // lines since the last one that was written
  Counter over_rate_;
  Counter overflowed_;
  Counter unwritten_;
  TimedNotification ended_;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace baton
