#include "common/net/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <sstream>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/base/check.h"
#include "common/base/version.h"
#include "common/net/vllm_names.h"

namespace baton {
namespace {

prometheus::Labels ToMap(const MetricLabels& labels) { return {labels.begin(), labels.end()}; }

// A field of /proc/self/stat, counted after the command's name, which may contain anything. 0 if it
// cannot be read.
double ProcStatField(int number) {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return 0;
  std::istringstream fields(text.substr(end + 1));
  std::string field;
  for (int i = 3; i <= number; ++i) fields >> field;
  return std::strtod(field.c_str(), nullptr);
}

double CpuSeconds() {
  return (ProcStatField(14) + ProcStatField(15)) / static_cast<double>(sysconf(_SC_CLK_TCK));
}
double ResidentBytes() { return ProcStatField(24) * static_cast<double>(sysconf(_SC_PAGESIZE)); }
double VirtualBytes() { return ProcStatField(23); }
double MaxOpenFiles() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<double>(limit.rlim_cur);
}
double OpenFiles() {
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    ++count;
  }
  return count;
}

}  // namespace

void Counter::Add(double value) { counter_->Increment(value); }
double Counter::value() const { return counter_->Value(); }
void Histogram::Observe(double value) { histogram_->Observe(value); }

absl::Span<const double> TimeToFirstTokenBuckets() {
  static constexpr std::array<double, 22> kBuckets = {
      0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
      1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
  return kBuckets;
}
absl::Span<const double> InterTokenBuckets() {
  static constexpr std::array<double, 22> kBuckets = {
      0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3,
      0.4,   0.5,   0.75,  1,    2.5,   5,    7.5,   10,  20,   40,  80};
  return kBuckets;
}
absl::Span<const double> RequestDurationBuckets() {
  static constexpr std::array<double, 26> kBuckets = {
      0.005, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1,   1.5, 2,   2.5,  5,
      10,    15,   20,   30,  40,  50,  60,  120, 240, 480, 960, 1920, 7680};
  return kBuckets;
}
absl::Span<const double> TransferDurationBuckets() {
  static constexpr std::array<double, 14> kBuckets = {
      0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 5};
  return kBuckets;
}
absl::Span<const double> TokenCountBuckets() {
  static constexpr std::array<double, 19> kBuckets = {
      1,    2,    5,     10,    20,    50,     100,    200,    500,    1000,
      2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000};
  return kBuckets;
}

struct Metrics::Rep {
  // Writes the present value.
  using Fill = std::function<void(prometheus::ClientMetric&)>;
  struct Function {
    prometheus::Labels labels;
    Fill fill;
  };
  struct FunctionFamily {
    std::string help;
    prometheus::MetricType type;
    std::vector<Function> functions;
    std::vector<Samples> lists;  // lists of series that come and go
  };

  explicit Rep(const std::string& process_role) : role(process_role) {}

  void AddFunction(const std::string& name, const std::string& help, prometheus::MetricType type,
                   const MetricLabels& labels, Fill fill) {
    absl::MutexLock lock(&mutex);
    FamilyOf(name, help, type).functions.push_back({ToMap(labels), std::move(fill)});
  }

  void AddList(const std::string& name, const std::string& help, prometheus::MetricType type,
               Samples samples) {
    absl::MutexLock lock(&mutex);
    FamilyOf(name, help, type).lists.push_back(std::move(samples));
  }

  FunctionFamily& FamilyOf(const std::string& name, const std::string& help,
                           prometheus::MetricType type) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    FunctionFamily& family =
        families.try_emplace(name, FunctionFamily{help, type, {}, {}}).first->second;
    BATON_CHECK(family.help == help && family.type == type, "one name, one help and kind");
    return family;
  }

  // Collects the values of all functions. Calls them without the lock.
  std::vector<prometheus::MetricFamily> CollectFunctions() const {
    std::map<std::string, FunctionFamily> copy;
    {
      absl::MutexLock lock(&mutex);
      copy = families;
    }
    std::vector<prometheus::MetricFamily> result;
    for (const auto& [name, family] : copy) {
      prometheus::MetricFamily out{name, family.help, family.type, {}};
      for (const Function& function : family.functions) {
        prometheus::ClientMetric metric;
        for (const auto& [key, value] : function.labels) metric.label.push_back({key, value});
        function.fill(metric);
        out.metric.push_back(std::move(metric));
      }
      for (const Samples& samples : family.lists) AddSamples(samples(), out);
      if (!out.metric.empty()) result.push_back(std::move(out));
    }
    return result;
  }

  static void AddSamples(const std::vector<MetricSample>& samples, prometheus::MetricFamily& out) {
    for (const MetricSample& sample : samples) {
      prometheus::ClientMetric metric;
      for (const auto& [key, value] : sample.labels) metric.label.push_back({key, value});
      const bool counts = out.type == prometheus::MetricType::Counter;
      (counts ? metric.counter.value : metric.gauge.value) = sample.value;
      out.metric.push_back(std::move(metric));
    }
  }

  const std::string role;
  prometheus::Registry registry{prometheus::Registry::InsertBehavior::Merge};
  mutable absl::Mutex mutex;
  std::string model_name ABSL_GUARDED_BY(mutex);
  bool vllm_names ABSL_GUARDED_BY(mutex) = false;
  std::map<std::string, FunctionFamily> families ABSL_GUARDED_BY(mutex);
};

Metrics::Metrics(const std::string& role) : rep_(std::make_unique<Rep>(role)) {
  AddInfo("baton_build_info", "Version of this process.", {{"version", Version()}});
  const double start = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  AddGauge("process_start_time_seconds", "Start of the process since the Unix epoch.", {},
           [start] { return start; });
  AddCounterFunction("process_cpu_seconds_total", "User and system CPU time.", {}, CpuSeconds);
  AddGauge("process_resident_memory_bytes", "Resident memory.", {}, ResidentBytes);
  AddGauge("process_virtual_memory_bytes", "Virtual memory.", {}, VirtualBytes);
  AddGauge("process_open_fds", "Open file descriptors.", {}, OpenFiles);
  AddGauge("process_max_fds", "File descriptors that may be open.", {}, MaxOpenFiles);
}

Metrics::~Metrics() = default;

void Metrics::SetModelName(const std::string& model_name) {
  absl::MutexLock lock(&rep_->mutex);
  rep_->model_name = model_name;
}

Counter Metrics::AddCounter(const std::string& name, const std::string& help,
                            const MetricLabels& labels) {
  return Counter(
      prometheus::BuildCounter().Name(name).Help(help).Register(rep_->registry).Add(ToMap(labels)));
}

Histogram Metrics::AddHistogram(const std::string& name, const std::string& help,
                                absl::Span<const double> bounds, const MetricLabels& labels) {
  auto& family = prometheus::BuildHistogram().Name(name).Help(help).Register(rep_->registry);
  return Histogram(family.Add(
      ToMap(labels), prometheus::Histogram::BucketBoundaries(bounds.begin(), bounds.end())));
}

void Metrics::AddGauge(const std::string& name, const std::string& help, const MetricLabels& labels,
                       std::function<double()> value) {
  rep_->AddFunction(name, help, prometheus::MetricType::Gauge, labels,
                    [value = std::move(value)](prometheus::ClientMetric& metric) {
                      metric.gauge.value = value();
                    });
}

void Metrics::AddCounterFunction(const std::string& name, const std::string& help,
                                 const MetricLabels& labels, std::function<double()> value) {
  rep_->AddFunction(name, help, prometheus::MetricType::Counter, labels,
                    [value = std::move(value)](prometheus::ClientMetric& metric) {
                      metric.counter.value = value();
                    });
}

void Metrics::AddGauges(const std::string& name, const std::string& help, Samples samples) {
  rep_->AddList(name, help, prometheus::MetricType::Gauge, std::move(samples));
}

void Metrics::AddCounters(const std::string& name, const std::string& help, Samples samples) {
  rep_->AddList(name, help, prometheus::MetricType::Counter, std::move(samples));
}

void Metrics::AddHistogramFunction(const std::string& name, const std::string& help,
                                   absl::Span<const double> bounds, const MetricLabels& labels,
                                   std::function<HistogramState()> state) {
  std::vector<double> uppers(bounds.begin(), bounds.end());
  uppers.push_back(std::numeric_limits<double>::infinity());
  rep_->AddFunction(
      name, help, prometheus::MetricType::Histogram, labels,
      [uppers = std::move(uppers), state = std::move(state)](prometheus::ClientMetric& metric) {
        const HistogramState now = state();
        BATON_CHECK(now.counts.size() == uppers.size(), "one count a bucket");
        uint64_t cumulative = 0;
        for (size_t i = 0; i < uppers.size(); ++i) {
          cumulative += now.counts[i];
          metric.histogram.bucket.push_back({cumulative, uppers[i]});
        }
        metric.histogram.sample_count = cumulative;
        metric.histogram.sample_sum = now.sum;
      });
}

void Metrics::AddInfo(const std::string& name, const std::string& help,
                      const MetricLabels& labels) {
  AddGauge(name, help, labels, [] { return 1.0; });
}

void Metrics::ShowVllmNames() {
  absl::MutexLock lock(&rep_->mutex);
  rep_->vllm_names = true;
}

std::string Metrics::Scrape() const {
  std::vector<prometheus::MetricFamily> families = rep_->registry.Collect();
  for (auto& family : rep_->CollectFunctions()) families.push_back(std::move(family));
  std::string model_name;
  bool vllm_names = false;
  {
    absl::MutexLock lock(&rep_->mutex);
    model_name = rep_->model_name;
    vllm_names = rep_->vllm_names;
  }
  for (prometheus::MetricFamily& family : families) {
    for (prometheus::ClientMetric& metric : family.metric) {
      metric.label.push_back({"model_name", model_name});
      metric.label.push_back({"role", rep_->role});
    }
  }
  if (vllm_names) AddVllmNames(families);
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace baton
