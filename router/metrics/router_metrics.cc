#include "router/metrics/router_metrics.h"

#include "common/base/clock.h"
#include "common/rpc/duration.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

constexpr size_t kMaxReasons = 32;

}  // namespace

RouterMetrics::RouterMetrics(Metrics& metrics, const Admission& admission)
    : metrics_(metrics),
      requests_(
          metrics,
          {.running = [this] { return static_cast<double>(running_.load()); },
           .waiting = [&admission] { return static_cast<double>(admission.waiting_requests()); }}),
      workers_(metrics) {
  metrics.AddGauge("baton_router_queue_bytes", "Bytes of requests that wait in the router.", {},
                   [&admission] { return static_cast<double>(admission.waiting_bytes()); });
  metrics.AddGauge("baton_router_queue_tokens",
                   "Tokens, with those expected to be generated, of requests without workers.", {},
                   [&admission] { return static_cast<double>(admission.waiting_tokens()); });
  metrics.AddGauge(
      "baton_router_predicted_wait_seconds", "What a new request would wait for a worker.", {},
      [&admission] { return absl::ToDoubleSeconds(admission.PredictedWait(SteadyNow())); });
  metrics.AddGauge("baton_router_streams_behind", "Streams whose client does not keep up.", {},
                   [this] { return static_cast<double>(behind_.load()); });
}

void RouterMetrics::Refused(const absl::Status& status) {
  requests_.Finished(status.code(), "", absl::ZeroDuration(), 0, 0);
  CountRefusal(status);
}

void RouterMetrics::CountRefusal(const absl::Status& status) {
  if (absl::IsCancelled(status)) return;
  std::string reason = ErrorReason(status);
  if (reason.empty()) reason = absl::StatusCodeToString(status.code());
  absl::MutexLock lock(&refusals_mutex_);
  // Workers have reasons of their own.
  if (refusals_.size() >= kMaxReasons && refusals_.count(reason) == 0) reason = "OTHER";
  auto it = refusals_.find(reason);
  if (it == refusals_.end()) {
    it = refusals_
             .emplace(reason, metrics_.AddCounter("baton_router_refusals_total",
                                                  "Requests refused before they had a worker.",
                                                  {{"reason", reason}}))
             .first;
  }
  it->second.Add();
}

std::map<std::string, uint64_t> RouterMetrics::refusals() {
  absl::MutexLock lock(&refusals_mutex_);
  std::map<std::string, uint64_t> counts;
  for (const auto& [reason, counter] : refusals_) {
    counts[reason] = static_cast<uint64_t>(counter.value());
  }
  return counts;
}

void RouterMetrics::SetUp(const std::string& worker, const std::string& role, bool up) {
  workers_.Set(WorkerSeries::Gauge::kUp, worker, role, up);
}

void RouterMetrics::SetCircuitOpen(const std::string& worker, const std::string& role, bool open) {
  workers_.Set(WorkerSeries::Gauge::kCircuitOpen, worker, role, open);
}

void RouterMetrics::SetQuarantined(const std::string& worker, const std::string& role,
                                   bool quarantined) {
  workers_.Set(WorkerSeries::Gauge::kQuarantined, worker, role, quarantined);
}

void RouterMetrics::SetPrefixPages(const std::string& worker, const std::string& role,
                                   size_t pages) {
  workers_.Set(WorkerSeries::Gauge::kPrefixPages, worker, role, static_cast<double>(pages));
}

void RouterMetrics::Selected(const std::string& worker, const std::string& role,
                             PlacementPolicy policy) {
  workers_.Selected(worker, role, PlacementPolicyName(policy));
}

void RouterMetrics::WorkerLeft(const std::string& worker, const std::string& role) {
  workers_.Left(worker, role);
}

void RouterMetrics::SetNeeded(const std::string& role, double workers) {
  Set(needed_, "baton_router_needed_workers",
      "Workers of the role that this router's load keeps as busy as they shall be.", role, workers);
}

void RouterMetrics::SetAdvised(const std::string& role, double workers) {
  Set(advised_, "baton_router_advised_workers",
      "Workers of the role that this router's load needs, a steady whole number.", role, workers);
}

void RouterMetrics::SetBalanced(const std::string& role, double workers) {
  Set(balanced_, "baton_router_balanced_workers",
      "The role's part of as many workers as there are, with which both roles are equally busy.",
      role, workers);
}

void RouterMetrics::Set(RoleGauges& gauges, const char* name, const char* help,
                        const std::string& role, double value) {
  auto it = gauges.find(role);
  if (it == gauges.end()) {
    it = gauges.try_emplace(role, 0.0).first;
    metrics_.AddGauge(name, help, {{"worker_role", role}},
                      [gauge = &it->second] { return gauge->load(); });
  }
  it->second.store(value);
}

void RouterMetrics::LinkFailed(const std::string& prefill, const std::string& decode,
                               const std::string& fault) {
  workers_.LinkFailed(prefill, decode, fault);
}

void RouterMetrics::Handled(const RequestMachine& machine, const RequestEvent& /*event*/,
                            Seen& seen, absl::Time now) {
  const size_t tokens = machine.accepted_tokens();
  if (tokens <= seen.tokens) return;
  if (seen.tokens == 0) {
    requests_.FirstToken(DurationFromProto(machine.timings().time_to_first_token()));
  } else {
    requests_.NextToken(now - seen.last_token);
  }
  seen = {.tokens = tokens, .last_token = now};
}

void RouterMetrics::Retried(const absl::Status& failure) {
  const std::string stage = GetErrorInfo(failure).value_or(ErrorInfo{}).stage;
  requests_.Retried(stage == kStageDecode ? "decode" : "prefill");
}

void RouterMetrics::Ended(const RequestMachine& machine, const absl::Status& status,
                          const std::string& finish_reason, absl::Time now) {
  const v1::Usage& usage = machine.usage();
  const v1::RequestTimings& timings = machine.timings();
  const uint64_t generated = status.ok() ? usage.completion_tokens() : machine.accepted_tokens();
  if (!status.ok() && !machine.admitted()) CountRefusal(status);
  requests_.Finished(status.code(), finish_reason, now - machine.spec().received,
                     usage.prompt_tokens(), generated);
  if (!status.ok()) return;
  requests_.PromptTokens(usage.prompt_tokens() - usage.cached_tokens(), usage.cached_tokens());
  requests_.Queued(DurationFromProto(timings.queue()), DurationFromProto(timings.prefill_queue()),
                   DurationFromProto(timings.decode_queue()));
  if (generated > 1) {
    const absl::Duration rest =
        DurationFromProto(timings.total()) - DurationFromProto(timings.time_to_first_token());
    requests_.PerOutputToken(rest / static_cast<double>(generated - 1));
  }
  requests_.Computed(DurationFromProto(timings.prefill()), DurationFromProto(timings.decode()));
}

}  // namespace baton
