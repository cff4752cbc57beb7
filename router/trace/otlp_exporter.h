// Sends spans to a collector: OTLP over HTTP, in JSON (https://opentelemetry.io/docs/specs/otlp/).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"

#include "common/base/bounded_queue.h"
#include "common/base/timed_wait.h"
#include "common/net/metrics.h"
#include "router/trace/otlp_options.h"
#include "router/trace/request_trace.h"
#include "router/trace/trace_json.h"

namespace baton {

// Has a thread of its own, which batches, sends and tries again, so that a slow or missing
// collector delays no request: what does not fit into the queue is dropped and counted.
// Thread-safe.
class OtlpExporter {
 public:
  static constexpr size_t kQueueBound = 1024;  // requests
  static constexpr size_t kBatchBound = 128;   // requests in one export

  struct Timing {
    absl::Duration batch_wait = absl::Seconds(1);            // for more requests, once there is one
    absl::Duration first_backoff = absl::Milliseconds(500);  // doubled with each retry
    int tries = 5;
  };

  // REQUIRES: TakeOtelEnvironment has checked the options. `resource`: what sends. Borrows `metrics`.
  OtlpExporter(const OtlpOptions& options, OtlpResource resource, Metrics& metrics,
               const Timing& timing);
  // Closes, and waits for the thread however long that takes.
  ~OtlpExporter();

  // Takes the spans of a request that is sampled, or drops them.
  void Take(RequestTrace trace);

  // Takes nothing more, and sends what it has for at most `limit`. False: the thread is still
  // waiting for the collector, each of whose steps ends within the timeout of the options; who
  // cannot wait so long ends the process.
  bool Close(absl::Duration limit);

 private:
  enum class Sent { kYes, kTryAgain, kRefused };

  void Loop();
  void Export(const std::vector<RequestTrace>& batch);
  Sent Post(const std::string& body, std::string& why);
  void Failed(size_t requests, const std::string& why);

  const OtlpOptions options_;
  const OtlpUrl url_;
  const OtlpResource resource_;
  const Timing timing_;
  BoundedQueue<RequestTrace> queue_{kQueueBound};
  TimedNotification closing_;
  TimedNotification ended_;
  std::atomic<int64_t> close_by_ns_;  // deadline of Close on the clock of SteadyNow
  absl::Time warned_ = absl::InfinitePast();
  Counter exported_;
  Counter overflowed_;
  Counter failed_;
  Counter retries_;
  std::thread thread_;
};

}  // namespace baton
