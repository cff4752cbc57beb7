#include "common/net/vllm_names.h"

#include <prometheus/metric_family.h>

#include <map>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace baton {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;

using Labels = std::map<std::string, std::string>;

// Which of our samples count, and what labels they get beyond model_name and engine.
enum class Rule {
  kAll,
  kCached,    // those with the source "cached"
  kOwnStage,  // those whose stage is this process
  kEnds,      // the reason in vLLM's words
  kConfig,    // the sizes of the cache in vLLM's words
};

struct Alias {
  const char* theirs;
  const char* ours;
  const char* help;
  Rule rule = Rule::kAll;
};

// Names and meanings: vLLM's documentation, "Production Metrics" (docs/usage/metrics.md).
constexpr Alias kAliases[] = {
    {"vllm:num_requests_running", "baton_requests_running", "Requests that run."},
    {"vllm:num_requests_waiting", "baton_requests_waiting", "Requests that wait."},
    {"vllm:kv_cache_usage_perc", "baton_kv_cache_usage_ratio", "KV cache in use, 1 is all of it."},
    {"vllm:kv_cache_usage_perc", "baton_router_kv_cache_usage_ratio",
     "KV cache in use, 1 is all of it."},
    {"vllm:gpu_cache_usage_perc", "baton_kv_cache_usage_ratio",
     "The former name of vllm:kv_cache_usage_perc."},
    {"vllm:gpu_cache_usage_perc", "baton_router_kv_cache_usage_ratio",
     "The former name of vllm:kv_cache_usage_perc."},
    {"vllm:prefix_cache_queries_total", "baton_prompt_tokens_total",
     "Prompt tokens looked up in prefix caches."},
    {"vllm:prefix_cache_hits_total", "baton_prompt_tokens_total",
     "Prompt tokens found in prefix caches.", Rule::kCached},
    {"vllm:num_preemptions_total", "baton_preemptions_total", "Preemptions."},
    {"vllm:prompt_tokens_total", "baton_prompt_tokens_total", "Prompt tokens."},
    {"vllm:generation_tokens_total", "baton_generation_tokens_total", "Generated tokens."},
    {"vllm:iteration_tokens_total", "baton_iteration_tokens", "Tokens of one step."},
    {"vllm:request_success_total", "baton_requests_total", "Requests that ended, by reason.",
     Rule::kEnds},
    {"vllm:time_to_first_token_seconds", "baton_time_to_first_token_seconds",
     "Time to the first token."},
    {"vllm:inter_token_latency_seconds", "baton_inter_token_latency_seconds",
     "Time between tokens."},
    {"vllm:time_per_output_token_seconds", "baton_inter_token_latency_seconds",
     "The former name of vllm:inter_token_latency_seconds."},
    {"vllm:request_time_per_output_token_seconds", "baton_request_time_per_output_token_seconds",
     "Mean time of a request's tokens after the first."},
    {"vllm:e2e_request_latency_seconds", "baton_request_duration_seconds",
     "From a request to its end."},
    {"vllm:request_queue_time_seconds", "baton_request_queue_seconds", "Time spent waiting.",
     Rule::kOwnStage},
    {"vllm:request_prefill_time_seconds", "baton_request_prefill_seconds",
     "Computation of the prompt."},
    {"vllm:request_decode_time_seconds", "baton_request_decode_seconds",
     "From the first decode step to the last token."},
    {"vllm:request_prompt_tokens", "baton_request_prompt_tokens", "Prompt tokens a request."},
    {"vllm:request_generation_tokens", "baton_request_generation_tokens",
     "Generated tokens a request."},
    {"vllm:nixl_xfer_time_seconds", "baton_kv_transfer_duration_seconds",
     "Duration of KV transfers."},
    {"vllm:nixl_bytes_transferred", "baton_kv_transfer_bytes", "Bytes of KV transfers."},
    {"vllm:nixl_num_failed_transfers_total", "baton_kv_transfer_failures_total",
     "KV transfers that failed."},
    {"vllm:cache_config_info", "baton_config_info", "Sizes of the KV cache.", Rule::kConfig},
};

std::string LabelOf(const ClientMetric& metric, absl::string_view name) {
  for (const ClientMetric::Label& label : metric.label) {
    if (label.name == name) return label.value;
  }
  return "";
}

std::string ReasonOf(const ClientMetric& metric) {
  const std::string status = LabelOf(metric, "status");
  if (status == "OK") return LabelOf(metric, "finish_reason");
  return status == "CANCELLED" ? "abort" : "error";
}

// Whether the sample counts; `labels` are those that it gets.
bool Take(const Alias& alias, const ClientMetric& metric, Labels& labels) {
  labels = {{"engine", "0"}, {"model_name", LabelOf(metric, "model_name")}};
  switch (alias.rule) {
    case Rule::kAll:
      return true;
    case Rule::kCached:
      return LabelOf(metric, "source") == "cached";
    case Rule::kOwnStage:
      return LabelOf(metric, "stage") == LabelOf(metric, "role");
    case Rule::kEnds:
      labels["finished_reason"] = ReasonOf(metric);
      return true;
    case Rule::kConfig:
      labels["block_size"] = LabelOf(metric, "block_size");
      labels["num_gpu_blocks"] = LabelOf(metric, "kv_blocks");
      labels["cache_dtype"] = LabelOf(metric, "kv_cache_dtype");
      return !labels["num_gpu_blocks"].empty();  // the router has none
  }
  return false;
}

// REQUIRES: the bounds of both are the same.
void Add(const ClientMetric& metric, ClientMetric& sum) {
  sum.counter.value += metric.counter.value;
  sum.gauge.value += metric.gauge.value;
  sum.histogram.sample_count += metric.histogram.sample_count;
  sum.histogram.sample_sum += metric.histogram.sample_sum;
  for (size_t i = 0; i < metric.histogram.bucket.size(); ++i) {
    sum.histogram.bucket[i].cumulative_count += metric.histogram.bucket[i].cumulative_count;
  }
}

MetricFamily Rename(const Alias& alias, const MetricFamily& family) {
  MetricFamily renamed{alias.theirs, alias.help, family.type, {}};
  std::map<Labels, ClientMetric> sums;
  for (const ClientMetric& metric : family.metric) {
    Labels labels;
    if (!Take(alias, metric, labels)) continue;
    const auto [sum, is_first] = sums.try_emplace(labels, metric);
    if (!is_first) Add(metric, sum->second);
  }
  for (auto& [labels, sum] : sums) {
    sum.label.clear();
    for (const auto& [name, value] : labels) sum.label.push_back({name, value});
    renamed.metric.push_back(std::move(sum));
  }
  return renamed;
}

}  // namespace

void AddVllmNames(std::vector<MetricFamily>& families) {
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < families.size(); ++i) places[families[i].name] = i;
  for (const Alias& alias : kAliases) {
    const auto found = places.find(alias.ours);
    if (found == places.end()) continue;
    MetricFamily renamed = Rename(alias, families[found->second]);
    if (!renamed.metric.empty()) families.push_back(std::move(renamed));
  }
}

}  // namespace baton
