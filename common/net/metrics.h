// The metrics of a process, in Prometheus' text format.
//
// Names are baton_{name}_{unit}; those of counters end in _total. Every metric has the labels
// model_name and role. Request ids and other unbounded values are never labels.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace prometheus {
class Counter;
class Histogram;
}  // namespace prometheus

namespace baton {

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// A handle of a counter. Copyable and thread-safe; valid while its Metrics lives.
class Counter {
 public:
  explicit Counter(prometheus::Counter& counter) : counter_(&counter) {}
  void Add(double value = 1);  // REQUIRES: value >= 0
  double value() const;

 private:
  prometheus::Counter* counter_;
};

// A handle of a histogram. Copyable and thread-safe; valid while its Metrics lives.
class Histogram {
 public:
  explicit Histogram(prometheus::Histogram& histogram) : histogram_(&histogram) {}
  void Observe(double value);

 private:
  prometheus::Histogram* histogram_;
};

// One value of a metric.
struct MetricSample {
  MetricLabels labels;
  double value = 0;
};

// Upper bounds of histograms, in seconds.
absl::Span<const double> TimeToFirstTokenBuckets();
absl::Span<const double> InterTokenBuckets();
absl::Span<const double> RequestDurationBuckets();  // for requests, queues, prefill and decode
absl::Span<const double> TransferDurationBuckets();
// Upper bounds of histograms of tokens: 1, 2, 5, 10 ... 1e6.
absl::Span<const double> TokenCountBuckets();

// The state of a histogram that is counted elsewhere.
struct HistogramState {
  std::vector<uint64_t> counts;  // [bounds + 1]: in each bucket alone; the last is above all bounds
  double sum = 0;                // sum of all values
};

// Thread-safe. One name may be added several times with different labels, if help and kind are
// equal.
class Metrics {
 public:
  // Adds baton_build_info and process_*. `role` is router, prefill or decode.
  explicit Metrics(const std::string& role);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Sets the label model_name of every metric from the next scrape on. It is empty before.
  void SetModelName(const std::string& model_name);

  Counter AddCounter(const std::string& name, const std::string& help, const MetricLabels& labels);
  Histogram AddHistogram(const std::string& name, const std::string& help,
                         absl::Span<const double> bounds, const MetricLabels& labels);
  // Calls `value` at each scrape, from any thread, until Metrics is destroyed. `value` must not
  // block.
  void AddGauge(const std::string& name, const std::string& help, const MetricLabels& labels,
                std::function<double()> value);
  // Adds a counter whose number only grows and is counted elsewhere; calls `value` as AddGauge
  // does.
  void AddCounterFunction(const std::string& name, const std::string& help,
                          const MetricLabels& labels, std::function<double()> value);

  // Add metrics whose series come and go: those that `samples` returns at a scrape, which are
  // bounded and differ in their labels. Call `samples` as AddGauge calls `value`.
  using Samples = std::function<std::vector<MetricSample>()>;
  void AddGauges(const std::string& name, const std::string& help, Samples samples);
  void AddCounters(const std::string& name, const std::string& help, Samples samples);
  // Adds a histogram that is counted elsewhere; calls `state` as AddGauge does.
  void AddHistogramFunction(const std::string& name, const std::string& help,
                            absl::Span<const double> bounds, const MetricLabels& labels,
                            std::function<HistogramState()> state);
  // Adds a gauge that is always 1 and whose labels have facts that do not change.
  void AddInfo(const std::string& name, const std::string& help, const MetricLabels& labels);
  // From the next scrape on, what vLLM has a name for is there by that name too (vllm_names.h).
  void ShowVllmNames();

  // The page that GET /metrics answers.
  std::string Scrape() const;

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
