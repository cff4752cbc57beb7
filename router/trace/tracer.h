// Exports every request that has ended: into a file of Trace Events, and to a collector by OTLP.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/base/bounded_queue.h"
#include "common/base/timed_wait.h"
#include "common/net/metrics.h"
#include "common/rpc/trace_context.h"
#include "router/page/request_history.h"
#include "router/request/events.h"
#include "router/trace/lay_trace.h"
#include "router/trace/otlp_exporter.h"
#include "router/trace/trace_file.h"

namespace baton {

struct TracerOptions {
  std::string file{};  // empty: none is written
  uint64_t file_bytes = uint64_t{256} << 20;
  OtlpOptions otlp{};

  bool on() const { return !file.empty() || !otlp.endpoint.empty(); }
};

// Both are made from the same spans (request_trace.h), on a thread of its own: the event loop only
// leaves a request's record in a bounded queue, and what does not fit is dropped and counted.
// Requests that were refused before they had a prompt are not traced. Thread-safe.
class Tracer {
 public:
  static constexpr size_t kQueueBound = 1024;  // requests

  // `router`: the name by which people recognise this router. `model`: its name to clients. Borrows
  // `metrics`. An error is one line that names the flag and the remedy. REQUIRES: options.on(), and
  // TakeOtelEnvironment has checked options.otlp.
  static absl::StatusOr<std::unique_ptr<Tracer>> Start(const TracerOptions& options,
                                                       const std::string& router,
                                                       const std::string& model, Metrics& metrics);
  // Closes, and waits for its threads however long that takes.
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // The place of a new request whose caller says this.
  TraceContext NewContext(const TraceHeaders& headers) const;
  // A request has ended, as its record says too. Nothing is done if `spec` has no trace.
  void Ended(std::shared_ptr<const RecordedRequest> record, const RequestSpec& spec);

  // Takes nothing more, writes and sends what it has for at most `limit`, and ends the file. False:
  // disk or collector did not answer in time, and who cannot wait for them ends the process.
  bool Close(absl::Duration limit);

 private:
  struct Item {
    std::shared_ptr<const RecordedRequest> record;
    TracedRequest request;
  };
  Tracer(std::string model, const TraceSampler& sampler, std::unique_ptr<TraceFile> file,
         std::unique_ptr<OtlpExporter> exporter, Metrics& metrics);
  void Loop();
  void Write(const RequestTrace& trace);

  const std::string model_;
  const TraceSampler sampler_;
  const bool writes_;
  std::unique_ptr<TraceFile> file_;               // the thread's only; null: none, or ended
  const std::unique_ptr<OtlpExporter> exporter_;  // null: there is none
  BoundedQueue<Item> queue_{kQueueBound};
  TimedNotification ended_;
  bool failing_ = false;          // the thread's only: the last write to the file failed
  bool told_of_crowd_ = false;    // the thread's only: a surplus of requests was logged
  uint64_t missing_in_file_ = 0;  // the thread's only: requests that were not written
  Counter overflowed_;
  Counter unwritten_;
  std::thread thread_;
};

}  // namespace baton
