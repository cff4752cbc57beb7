#include "router/access_log/access_log.h"

#include <utility>

#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

Counter Dropped(Metrics& metrics, const char* reason) {
  return metrics.AddCounter("baton_access_log_dropped_total",
                            "Lines that the access log does not have.", {{"reason", reason}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<AccessLog>> AccessLog::Start(const AccessLogOptions& options,
                                                            Metrics& metrics) {
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<LineSink> sink, LineSink::Open(options.target));
  return std::unique_ptr<AccessLog>(new AccessLog(options, std::move(sink), metrics));
}

AccessLog::AccessLog(const AccessLogOptions& options, std::unique_ptr<LineSink> sink,
                     Metrics& metrics)
    : options_(options),
      sink_(std::move(sink)),
      over_rate_(Dropped(metrics, "rate")),
      overflowed_(Dropped(metrics, "queue_full")),
      unwritten_(Dropped(metrics, "file")),
      thread_([this] { Loop(); }) {}

AccessLog::~AccessLog() {
  queue_.Close();
  thread_.join();
}

void AccessLog::Drop(Counter& reason) {
  reason.Add();
  ++left_out_;
}

void AccessLog::Add(AccessRecord record, absl::Time now) {
  if (!record.identified) {
    absl::MutexLock lock(&mutex_);
    if (!unknown_callers_.Take(now)) return Drop(over_rate_);
  }
  if (queue_.TryPush(std::move(record)) != Pushed::kYes) Drop(overflowed_);
}

void AccessLog::Loop() {
  while (const auto record = queue_.Pop(absl::InfiniteDuration())) Write(*record);
  ended_.Notify();
}

void AccessLog::Write(const AccessRecord& record) {
  const uint64_t left_out = left_out_.exchange(0);
  const absl::Status status = sink_->Write(AccessLine(record, options_.format, left_out));
  const bool failed_before = std::exchange(failing_, !status.ok());
  // Where the lines go to standard error, so would these.
  const bool tells = options_.target != kToStandardError;
  if (status.ok()) {
    if (failed_before && tells) {
      LogInfo("--access-log {}: is written again; {} lines are missing", LogSafe(options_.target),
              left_out);
    }
    return;
  }
  left_out_ += left_out;
  Drop(unwritten_);
  if (failed_before || !tells) return;
  LogWarning("{}; lines are dropped until it can be written", LogSafe(status.message()));
}

bool AccessLog::Close(absl::Duration limit) {
  queue_.Close();
  return ended_.WaitFor(limit);
}

}  // namespace baton
