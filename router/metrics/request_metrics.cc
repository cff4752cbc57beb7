#include "router/metrics/request_metrics.h"

namespace baton {
namespace {

double Seconds(absl::Duration duration) { return absl::ToDoubleSeconds(duration); }

Histogram Queue(Metrics& metrics, const char* stage) {
  return metrics.AddHistogram("baton_request_queue_seconds", "Time spent waiting, by stage.",
                              RequestDurationBuckets(), {{"stage", stage}});
}

Counter PromptCounter(Metrics& metrics, const char* source) {
  return metrics.AddCounter("baton_prompt_tokens_total", "Prompt tokens, computed or from a cache.",
                            {{"source", source}});
}

}  // namespace

RequestMetrics::RequestMetrics(Metrics& metrics, Gauges gauges)
    : metrics_(metrics),
      prompt_computed_(PromptCounter(metrics, "computed")),
      prompt_cached_(PromptCounter(metrics, "cached")),
      generated_(metrics.AddCounter("baton_generation_tokens_total", "Tokens generated.", {})),
      disconnects_(
          metrics.AddCounter("baton_disconnects_total", "Requests whose client went away.", {})),
      duration_(metrics.AddHistogram("baton_request_duration_seconds",
                                     "From receiving a request to its end.",
                                     RequestDurationBuckets(), {})),
      first_token_(metrics.AddHistogram("baton_time_to_first_token_seconds",
                                        "From receiving a request to sending its first token.",
                                        TimeToFirstTokenBuckets(), {})),
      inter_token_(
          metrics.AddHistogram("baton_inter_token_latency_seconds",
                               "Between tokens of a stream; those that come together count as one.",
                               InterTokenBuckets(), {})),
      per_output_token_(metrics.AddHistogram("baton_request_time_per_output_token_seconds",
                                             "Mean time of a request's tokens after the first.",
                                             InterTokenBuckets(), {})),
      queue_router_(Queue(metrics, "router")),
      queue_prefill_(Queue(metrics, "prefill")),
      queue_decode_(Queue(metrics, "decode")),
      prefill_(metrics.AddHistogram("baton_request_prefill_seconds", "Computation of the prompt.",
                                    RequestDurationBuckets(), {})),
      decode_(metrics.AddHistogram("baton_request_decode_seconds",
                                   "From the first decode step to the last token.",
                                   RequestDurationBuckets(), {})),
      prompt_tokens_(metrics.AddHistogram("baton_request_prompt_tokens", "Prompt tokens a request.",
                                          TokenCountBuckets(), {})),
      generated_tokens_(metrics.AddHistogram("baton_request_generation_tokens",
                                             "Generated tokens a request.", TokenCountBuckets(),
                                             {})) {
  metrics.AddGauge("baton_requests_running", "Requests given to workers.", {},
                   std::move(gauges.running));
  metrics.AddGauge("baton_requests_waiting", "Requests that wait.", {{"reason", "queue"}},
                   std::move(gauges.waiting));
}

Counter& RequestMetrics::Requests(absl::StatusCode code, const std::string& finish_reason) {
  absl::MutexLock lock(&mutex_);
  const auto key = std::make_pair(static_cast<int>(code), finish_reason);
  auto found = requests_.find(key);
  if (found == requests_.end()) {
    const std::string status = absl::StatusCodeToString(code);
    found = requests_
                .emplace(key, metrics_.AddCounter(
                                  "baton_requests_total", "Requests that ended.",
                                  {{"status", status}, {"finish_reason", finish_reason}}))
                .first;
  }
  return found->second;
}

void RequestMetrics::Finished(absl::StatusCode code, const std::string& finish_reason,
                              absl::Duration total, uint64_t prompt_tokens,
                              uint64_t generated_tokens) {
  Requests(code, finish_reason).Add();
  duration_.Observe(Seconds(total));
  if (prompt_tokens > 0) prompt_tokens_.Observe(static_cast<double>(prompt_tokens));
  if (code == absl::StatusCode::kOk) {
    generated_tokens_.Observe(static_cast<double>(generated_tokens));
  }
  generated_.Add(static_cast<double>(generated_tokens));
}

void RequestMetrics::PromptTokens(uint64_t computed, uint64_t cached) {
  prompt_computed_.Add(static_cast<double>(computed));
  prompt_cached_.Add(static_cast<double>(cached));
}

void RequestMetrics::FirstToken(absl::Duration since_received) {
  first_token_.Observe(Seconds(since_received));
}

void RequestMetrics::NextToken(absl::Duration since_last_token) {
  inter_token_.Observe(Seconds(since_last_token));
}

void RequestMetrics::PerOutputToken(absl::Duration mean) {
  per_output_token_.Observe(Seconds(mean));
}

void RequestMetrics::Queued(absl::Duration in_router, absl::Duration at_prefill,
                            absl::Duration at_decode) {
  queue_router_.Observe(Seconds(in_router));
  queue_prefill_.Observe(Seconds(at_prefill));
  queue_decode_.Observe(Seconds(at_decode));
}

void RequestMetrics::Computed(absl::Duration prefill, absl::Duration decode) {
  prefill_.Observe(Seconds(prefill));
  decode_.Observe(Seconds(decode));
}

void RequestMetrics::Retried(const std::string& leg) {
  absl::MutexLock lock(&mutex_);
  auto found = retries_.find(leg);
  if (found == retries_.end()) {
    found = retries_
                .emplace(leg, metrics_.AddCounter("baton_retries_total",
                                                  "Attempts after the first.", {{"leg", leg}}))
                .first;
  }
  found->second.Add();
}

void RequestMetrics::Disconnected() { disconnects_.Add(); }

}  // namespace baton
