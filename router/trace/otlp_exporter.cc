#include "router/trace/otlp_exporter.h"

#include <httplib.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/base/clock.h"
#include "common/base/log.h"

namespace baton {
namespace {

constexpr absl::Duration kMostConnecting = absl::Seconds(2);
constexpr absl::Duration kBetweenWarnings = absl::Seconds(60);

Counter Requests(Metrics& metrics, const char* result) {
  return metrics.AddCounter("baton_trace_exports_total",
                            "Requests whose spans were exported by OTLP, or could not be.",
                            {{"result", result}});
}

}  // namespace

OtlpExporter::OtlpExporter(const OtlpOptions& options, OtlpResource resource, Metrics& metrics,
                           const Timing& timing)
    : options_(options),
      url_(SplitOtlpUrl(options.endpoint)),
      resource_(std::move(resource)),
      timing_(timing),
      close_by_ns_(std::numeric_limits<int64_t>::max()),
      exported_(Requests(metrics, "exported")),
      overflowed_(Requests(metrics, "queue_full")),
      failed_(Requests(metrics, "failed")),
      retries_(metrics.AddCounter("baton_trace_export_retries_total",
                                  "Exports by OTLP that were tried again.", {})),
      thread_([this] { Loop(); }) {}

OtlpExporter::~OtlpExporter() {
  static_cast<void>(Close(absl::ZeroDuration()));
  thread_.join();
}

void OtlpExporter::Take(RequestTrace trace) {
  if (queue_.TryPush(std::move(trace)) != Pushed::kYes) overflowed_.Add();
}

bool OtlpExporter::Close(absl::Duration limit) {
  if (!closing_.HasBeenNotified()) {
    close_by_ns_ = absl::ToUnixNanos(SteadyNow() + limit);
    queue_.Close();
    closing_.Notify();
  }
  return ended_.WaitFor(limit);
}

void OtlpExporter::Loop() {
  std::vector<RequestTrace> batch;
  while (true) {
    auto first = queue_.Pop(absl::InfiniteDuration());
    if (!first.has_value()) break;  // closed and empty
    batch.push_back(*std::move(first));
    for (const absl::Time until = SteadyNow() + timing_.batch_wait; batch.size() < kBatchBound;) {
      auto next = queue_.Pop(std::max(until - SteadyNow(), absl::ZeroDuration()));
      if (!next.has_value()) break;
      batch.push_back(*std::move(next));
    }
    Export(batch);
    batch.clear();
  }
  ended_.Notify();
}

void OtlpExporter::Export(const std::vector<RequestTrace>& batch) {
  const std::string body = OtlpBody(resource_, batch);
  std::string why = "the router ends";
  absl::Duration backoff = timing_.first_backoff;
  for (int i = 0; i < timing_.tries; ++i) {
    if (absl::ToUnixNanos(SteadyNow()) >= close_by_ns_) break;
    if (i > 0) {
      retries_.Add();
      closing_.WaitFor(backoff);
      backoff *= 2;
    }
    const Sent sent = Post(body, why);
    if (sent == Sent::kYes) return exported_.Add(static_cast<double>(batch.size()));
    if (sent == Sent::kRefused) break;
  }
  Failed(batch.size(), why);
}

void OtlpExporter::Failed(size_t requests, const std::string& why) {
  failed_.Add(static_cast<double>(requests));
  if (SteadyNow() < warned_ + kBetweenWarnings) return;
  warned_ = SteadyNow();
  LogWarning("the spans of {} requests are not exported to {}: {}", requests,
             LogSafe(options_.endpoint), LogSafe(why));
}

OtlpExporter::Sent OtlpExporter::Post(const std::string& body, std::string& why) {
  const absl::Duration left = absl::FromUnixNanos(close_by_ns_) - SteadyNow();
  const absl::Duration timeout = std::max(std::min(options_.timeout, left), absl::Milliseconds(1));
  httplib::Client client(url_.origin);
  if (!client.is_valid()) {
    why = "its URL names no host";
    return Sent::kRefused;
  }
  client.set_connection_timeout(absl::ToChronoMilliseconds(std::min(timeout, kMostConnecting)));
  client.set_read_timeout(absl::ToChronoMilliseconds(timeout));
  client.set_write_timeout(absl::ToChronoMilliseconds(timeout));
  if (!options_.ca_file.empty()) client.set_ca_cert_path(options_.ca_file);
  httplib::Headers headers;
  for (const auto& [name, value] : options_.headers) headers.emplace(name, value);
  const httplib::Result answer = client.Post(url_.path, headers, body, "application/json");
  if (!answer) {
    why = httplib::to_string(answer.error());
    return Sent::kTryAgain;
  }
  if (answer->status / 100 == 2) return Sent::kYes;
  why = absl::StrCat("it answers ", answer->status);
  // As OTLP/HTTP says: these are the collector's to mend.
  for (const int passing : {429, 502, 503, 504}) {
    if (answer->status == passing) return Sent::kTryAgain;
  }
  return Sent::kRefused;
}

}  // namespace baton
