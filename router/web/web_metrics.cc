#include "router/web/web_metrics.h"

#include "absl/strings/str_cat.h"

#include "router/web/routes.h"

namespace baton {

void WebMetrics::Answered(absl::string_view path, int status,
                          std::optional<absl::Duration> since_head) {
  constexpr int kStatusesOfClass = 100;
  const std::string route(RouteName(path));
  const int status_class = status / kStatusesOfClass;
  absl::MutexLock lock(&mutex_);
  auto counted = requests_.find({route, status_class});
  if (counted == requests_.end()) {
    Counter counter = metrics_.AddCounter(
        "baton_http_requests_total", "HTTP requests that were answered, when the answer began.",
        {{"route", route}, {"status", absl::StrCat(status_class, "xx")}});
    counted = requests_.emplace(std::make_pair(route, status_class), counter).first;
  }
  counted->second.Add();
  if (!since_head.has_value()) return;
  auto timed = until_headers_.find(route);
  if (timed == until_headers_.end()) {
    Histogram histogram =
        metrics_.AddHistogram("baton_http_time_to_headers_seconds",
                              "From the end of a request's headers to the beginning of its answer.",
                              TimeToFirstTokenBuckets(), {{"route", route}});
    timed = until_headers_.emplace(route, histogram).first;
  }
  timed->second.Observe(absl::ToDoubleSeconds(*since_head));
}

void AddHttpGauges(const HttpServer& server, Metrics& metrics) {
  metrics.AddGauge("baton_http_connections", "Open connections of HTTP.", {},
                   [&server] { return static_cast<double>(server.connections()); });
  metrics.AddGauge("baton_http_event_streams", "Open streams of events.", {},
                   [&server] { return static_cast<double>(server.event_streams()); });
}

}  // namespace baton
