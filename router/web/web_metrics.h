// Prometheus metrics of the HTTP API.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/net/metrics.h"
#include "router/http/http_server.h"

namespace baton {

// Thread-safe. Borrows the Metrics. Labels are the routes of routes.h and the classes of statuses,
// whatever clients ask for.
class WebMetrics {
 public:
  explicit WebMetrics(Metrics& metrics) : metrics_(metrics) {}

  // As HttpServer::Handler::answered.
  void Answered(absl::string_view path, int status, std::optional<absl::Duration> since_head);

 private:
  Metrics& metrics_;
  absl::Mutex mutex_;
  // By route and the first digit of the status.
  std::map<std::pair<std::string, int>, Counter> requests_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Histogram> until_headers_ ABSL_GUARDED_BY(mutex_);  // by route
};

// Adds gauges for `server`, which must outlive every scrape.
void AddHttpGauges(const HttpServer& server, Metrics& metrics);

}  // namespace baton
