#include "router/router_metrics.h"

#include "common/rpc/status.h"
#include "router/timeline.h"

namespace baton {
namespace {

constexpr size_t kMaxWorkerLabels = 1024;

}  // namespace

RouterMetrics::RouterMetrics(Metrics& metrics, const Admission& admission)
    : metrics_(metrics),
      requests_(
          metrics,
          {.running = [this] { return static_cast<double>(running_.load()); },
           .waiting = [&admission] { return static_cast<double>(admission.waiting_requests()); }}) {
  metrics.AddGauge("baton_router_queue_bytes", "Bytes of requests that wait in the router.", {},
                   [&admission] { return static_cast<double>(admission.waiting_bytes()); });
}

void RouterMetrics::SetUp(const std::string& worker, const std::string& role, bool up) {
  const auto key = std::make_pair(worker, role);
  auto it = up_.find(key);
  if (it == up_.end()) {
    if (up_.size() >= kMaxWorkerLabels) return;
    it = up_.try_emplace(key, 0.0).first;
    metrics_.AddGauge("baton_worker_up", "1 while the router may use the worker.",
                      {{"worker", worker}, {"worker_role", role}},
                      [value = &it->second] { return value->load(); });
  }
  it->second.store(up ? 1 : 0);
}

void RouterMetrics::Selected(const std::string& worker, PlacementPolicy policy) {
  auto it = selected_.find(worker);
  if (it == selected_.end()) {
    if (selected_.size() >= kMaxWorkerLabels) return;
    it = selected_
             .emplace(worker, metrics_.AddCounter(
                                  "baton_worker_selection_total", "Requests given to the worker.",
                                  {{"worker", worker}, {"policy", PlacementPolicyName(policy)}}))
             .first;
  }
  it->second.Add();
}

void RouterMetrics::TokensDelivered(const RequestMachine& machine, absl::Time last,
                                    absl::Time now) {
  if (last == absl::InfinitePast()) {
    requests_.FirstToken(GetDuration(machine.timings().time_to_first_token()));
  } else {
    requests_.NextToken(now - last);
  }
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
  requests_.Finished(status.code(), finish_reason, now - machine.spec().received,
                     usage.prompt_tokens(), generated);
  if (!status.ok()) return;
  requests_.PromptTokens(usage.prompt_tokens() - usage.cached_tokens(), usage.cached_tokens());
  requests_.Queued(GetDuration(timings.queue()), GetDuration(timings.prefill_queue()),
                   GetDuration(timings.decode_queue()));
  if (generated > 1) {
    const absl::Duration rest =
        GetDuration(timings.total()) - GetDuration(timings.time_to_first_token());
    requests_.PerOutputToken(rest / static_cast<double>(generated - 1));
  }
  requests_.Computed(GetDuration(timings.prefill()), GetDuration(timings.decode()));
}

}  // namespace baton
