#include "router/metrics/worker_series.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace baton {
namespace {

// Workers that left keep their series, at most as many as there are workers now, or this many. So a
// fleet that was replaced once is still seen, and addresses that change all the time leave few
// series.
constexpr size_t kMostLeft = 32;
// Stands for both workers of links beyond the bound.
constexpr char kOtherWorkers[] = "other";

}  // namespace

WorkerSeries::WorkerSeries(Metrics& metrics) {
  const auto add = [&](const char* name, const char* help, Gauge gauge) {
    metrics.AddGauges(name, help, [this, gauge] { return Samples(gauge); });
  };
  add("baton_worker_up", "1 while the router may use the worker.", Gauge::kUp);
  add("baton_worker_circuit_open",
      "1 while the worker, which failed in a row, is given one request at a time.",
      Gauge::kCircuitOpen);
  add("baton_worker_quarantined",
      "1 while a decode worker says that the prefill worker pushed wrong KV.", Gauge::kQuarantined);
  add("baton_router_prefix_pages",
      "Pages of 16 tokens in the worker's prefix cache that placement knows of.",
      Gauge::kPrefixPages);
  metrics.AddCounters("baton_worker_selection_total", "Requests given to the worker.",
                      [this] { return Selections(); });
  metrics.AddCounters("baton_router_link_failures_total",
                      "Hand-offs that failed between two workers.",
                      [this] { return LinkFailures(); });
}

void WorkerSeries::Set(Gauge gauge, const std::string& worker, const std::string& role,
                       double value) {
  absl::MutexLock lock(&mutex_);
  Find(worker, role).gauges[static_cast<size_t>(gauge)] = value;
}

void WorkerSeries::Selected(const std::string& worker, const std::string& role,
                            const std::string& policy) {
  absl::MutexLock lock(&mutex_);
  policy_ = policy;
  std::optional<double>& selected = Find(worker, role).selected;
  selected = selected.value_or(0) + 1;
}

void WorkerSeries::LinkFailed(const std::string& prefill, const std::string& decode,
                              const std::string& reason) {
  absl::MutexLock lock(&mutex_);
  std::array<std::string, 3> key = {prefill, decode, reason};
  if (link_failures_.size() >= kMostWorkers && link_failures_.count(key) == 0) {
    key = {kOtherWorkers, kOtherWorkers, reason};
  }
  ++link_failures_[key];
}

void WorkerSeries::Left(const std::string& worker, const std::string& role) {
  absl::MutexLock lock(&mutex_);
  const auto at = series_.find({worker, role});
  if (at == series_.end() || at->second.has_left()) return;
  if (!at->second.shown) {
    Erase(at);
    return;
  }
  for (std::optional<double>& gauge : at->second.gauges) {
    if (gauge.has_value()) gauge = 0;
  }
  at->second.left = now_;
  ++left_;
  if (shown_ < series_.size()) {  // a worker that is there waits for this place
    Erase(at);
    ShowOthers();
  }
  while (left_ > std::max(kMostLeft, shown_ - left_)) MakeRoom();
}

void WorkerSeries::Tick(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  now_ = now;
  if (left_ == 0) return;
  for (auto at = series_.begin(); at != series_.end();) {
    const bool due = at->second.has_left() && now - at->second.left >= kKeep;
    at = due ? Erase(at) : std::next(at);
  }
  ShowOthers();
}

WorkerSeries::Series& WorkerSeries::Find(const std::string& worker, const std::string& role) {
  const auto [at, is_new] = series_.try_emplace({worker, role});
  Series& series = at->second;
  if (series.has_left()) {
    series.left = absl::InfiniteFuture();
    --left_;
  }
  if (is_new) {
    if (shown_ >= kMostWorkers) MakeRoom();
    series.shown = shown_ < kMostWorkers;
    if (series.shown) ++shown_;
  }
  return series;
}

void WorkerSeries::MakeRoom() {
  if (left_ == 0) return;
  auto first = series_.end();
  for (auto at = series_.begin(); at != series_.end(); ++at) {
    if (!at->second.has_left()) continue;
    if (first == series_.end() || at->second.left < first->second.left) first = at;
  }
  Erase(first);
}

WorkerSeries::Map::iterator WorkerSeries::Erase(Map::iterator at) {
  if (at->second.shown) --shown_;
  if (at->second.has_left()) --left_;
  const Key& worker = at->first;
  const size_t end = worker.second == "prefill" ? 0 : 1;
  std::erase_if(link_failures_,
                [&](const auto& failures) { return failures.first[end] == worker.first; });
  return series_.erase(at);
}

void WorkerSeries::ShowOthers() {
  if (shown_ == series_.size()) return;
  for (auto& [key, series] : series_) {
    if (series.shown || shown_ >= kMostWorkers) continue;
    series.shown = true;
    ++shown_;
  }
}

std::vector<MetricSample> WorkerSeries::Samples(Gauge gauge) const {
  absl::MutexLock lock(&mutex_);
  std::vector<MetricSample> samples;
  for (const auto& [key, series] : series_) {
    const std::optional<double>& value = series.gauges[static_cast<size_t>(gauge)];
    if (!series.shown || !value.has_value()) continue;
    samples.push_back(
        {.labels = {{"worker", key.first}, {"worker_role", key.second}}, .value = *value});
  }
  return samples;
}

std::vector<MetricSample> WorkerSeries::LinkFailures() const {
  absl::MutexLock lock(&mutex_);
  std::vector<MetricSample> samples;
  for (const auto& [key, count] : link_failures_) {
    samples.push_back(
        {.labels = {{"prefill", key[0]}, {"decode", key[1]}, {"reason", key[2]}}, .value = count});
  }
  return samples;
}

std::vector<MetricSample> WorkerSeries::Selections() const {
  absl::MutexLock lock(&mutex_);
  std::vector<MetricSample> samples;
  for (const auto& [key, series] : series_) {
    if (!series.shown || !series.selected.has_value()) continue;
    // The roles of one address follow each other and share one sample, which has no role.
    const bool same = !samples.empty() && samples.back().labels.front().second == key.first;
    if (same) {
      samples.back().value += *series.selected;
      continue;
    }
    samples.push_back(
        {.labels = {{"worker", key.first}, {"policy", policy_}}, .value = *series.selected});
  }
  return samples;
}

}  // namespace baton
