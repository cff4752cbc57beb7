// Metrics of a process in Prometheus' text format.
//
// Names are baton_{name}_{unit}, counters end in _total. Every metric carries the labels model_name
// and role; request ids and other unbounded values are never labels.
#pragma once

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

// A handle; copyable. Thread-safe. Valid while its Metrics lives.
class Counter {
 public:
  explicit Counter(prometheus::Counter& counter) : counter_(&counter) {}
  void Add(double value = 1);  // REQUIRES: value >= 0
  double value() const;

 private:
  prometheus::Counter* counter_;
};

// As Counter.
class Histogram {
 public:
  explicit Histogram(prometheus::Histogram& histogram) : histogram_(&histogram) {}
  void Observe(double value);

 private:
  prometheus::Histogram* histogram_;
};

// Upper bounds of histograms, seconds.
absl::Span<const double> TimeToFirstTokenBuckets();
absl::Span<const double> InterTokenBuckets();
absl::Span<const double> RequestDurationBuckets();  // of requests, queues, prefill and decode
absl::Span<const double> TransferDurationBuckets();
// Tokens: 1, 2, 5, 10 ... 1e6.
absl::Span<const double> TokenCountBuckets();

// Thread-safe. The same name (with the same help and kind) may be added with different labels.
class Metrics {
 public:
  // Adds baton_build_info and process_*. `role`: router, prefill or decode.
  explicit Metrics(const std::string& role);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Of every metric from the next scrape on; empty until the model is known.
  void SetModelName(const std::string& model_name);

  Counter AddCounter(const std::string& name, const std::string& help, const MetricLabels& labels);
  Histogram AddHistogram(const std::string& name, const std::string& help,
                         absl::Span<const double> bounds, const MetricLabels& labels);
  // `value` is called at each scrape, from any thread; must not block. It must stay callable until
  // Metrics is destroyed.
  void AddGauge(const std::string& name, const std::string& help, const MetricLabels& labels,
                std::function<double()> value);
  // As AddGauge, for a number that only grows and is counted elsewhere.
  void AddCounterFunction(const std::string& name, const std::string& help,
                          const MetricLabels& labels, std::function<double()> value);

  // The text that GET /metrics answers.
  std::string Scrape() const;

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
