#include "common/worker/worker_metrics.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/kv_type_name.h"
#include "common/worker/kv_memory.h"

namespace baton {
namespace {

double Seconds(absl::Duration duration) { return absl::ToDoubleSeconds(duration); }

// The buckets 2 KiB, 8 KiB ... 8 GiB.
std::vector<double> TransferByteBuckets() {
  std::vector<double> buckets;
  for (int exponent = 11; exponent <= 33; exponent += 2) buckets.push_back(std::ldexp(1, exponent));
  return buckets;
}

const char* Name(WorkerMetrics::Direction direction) {
  return direction == WorkerMetrics::Direction::kSent ? "sent" : "received";
}

constexpr const char* kFailureReasons[] = {"mismatch", "damaged", "refused",
                                           "lost",     "timeout", "internal"};

const char* FailureReason(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kFailedPrecondition:
      return "mismatch";  // identities or shapes differ
    case absl::StatusCode::kDataLoss:
      return "damaged";  // a CRC or a digest differs
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kResourceExhausted:
      return "refused";  // superseded, unknown, out of range, no room
    case absl::StatusCode::kUnavailable:
      return "lost";  // the connection broke, or the peer is silent
    case absl::StatusCode::kDeadlineExceeded:
      return "timeout";  // nothing ever came
    default:
      return "internal";
  }
}

// Adds metrics that are read from a snapshot of the engine; each `field` takes a number from it.
class StatsAdder {
 public:
  using Field = double (*)(const EngineStats&);
  StatsAdder(Metrics& metrics, const std::function<EngineStats()>& stats)
      : metrics_(metrics), stats_(stats) {}

  void Gauge(const char* name, const char* help, const MetricLabels& labels, Field field) {
    metrics_.AddGauge(name, help, labels, [stats = stats_, field] { return field(stats()); });
  }
  void Counter(const char* name, const char* help, const MetricLabels& labels, Field field) {
    metrics_.AddCounterFunction(name, help, labels,
                                [stats = stats_, field] { return field(stats()); });
  }

 private:
  Metrics& metrics_;
  const std::function<EngineStats()>& stats_;
};

void AddEngineMetrics(Metrics& metrics, const std::function<EngineStats()>& stats) {
  StatsAdder add(metrics, stats);
  add.Gauge("baton_requests_running", "Sequences in the batch.", {},
            [](const EngineStats& s) { return double(s.running_sequences); });
  add.Gauge("baton_requests_waiting", "Sequences that wait.", {{"reason", "queue"}},
            [](const EngineStats& s) { return double(s.waiting_sequences); });
  const char* blocks_help = "KV blocks by state; cached ones can be evicted.";
  add.Gauge("baton_kv_cache_blocks", blocks_help, {{"state", "used"}},
            [](const EngineStats& s) { return double(s.used_blocks); });
  add.Gauge("baton_kv_cache_blocks", blocks_help, {{"state", "promised"}},
            [](const EngineStats& s) { return double(s.reserved_blocks); });
  add.Gauge("baton_kv_cache_blocks", blocks_help, {{"state", "cached"}},
            [](const EngineStats& s) { return double(s.cached_blocks); });
  add.Gauge("baton_kv_cache_blocks", blocks_help, {{"state", "free"}},
            [](const EngineStats& s) { return double(s.free_blocks - s.cached_blocks); });
  add.Gauge("baton_kv_cache_usage_ratio", "Part of the KV blocks that is used or promised.", {},
            [](const EngineStats& s) {
              return s.total_blocks == 0
                         ? 0.0
                         : double(s.used_blocks + s.reserved_blocks) / double(s.total_blocks);
            });
  add.Gauge("baton_tokens_per_second", "Tokens computed a second, over the last seconds.", {},
            [](const EngineStats& s) { return s.tokens_per_second; });
  const char* prompt_help = "Prompt tokens, computed or from a cache.";
  add.Counter("baton_prompt_tokens_total", prompt_help, {{"source", "computed"}},
              [](const EngineStats& s) { return double(s.prompt_tokens_computed); });
  add.Counter("baton_prompt_tokens_total", prompt_help, {{"source", "cached"}},
              [](const EngineStats& s) { return double(s.prompt_tokens_cached); });
  add.Counter("baton_prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
              {}, [](const EngineStats& s) {
                return double(s.prompt_tokens_computed + s.prompt_tokens_cached);
              });
  add.Counter("baton_prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", {},
              [](const EngineStats& s) { return double(s.prompt_tokens_cached); });
  add.Counter("baton_generation_tokens_total", "Tokens generated.", {},
              [](const EngineStats& s) { return double(s.generated_tokens); });
  const char* guesses_help = "Guessed tokens whose rows were computed, by what came of them.";
  add.Counter("baton_guessed_tokens_total", guesses_help, {{"result", "accepted"}},
              [](const EngineStats& s) { return double(s.accepted_guesses); });
  add.Counter("baton_guessed_tokens_total", guesses_help, {{"result", "refused"}},
              [](const EngineStats& s) { return double(s.refused_guesses); });
  add.Counter("baton_preemptions_total", "Sequences preempted for lack of blocks.", {},
              [](const EngineStats& s) { return double(s.preemptions); });
  const auto& bounds = StepSizes::kBounds;
  metrics.AddHistogramFunction("baton_iteration_tokens", "Tokens prefilled and decoded in a step.",
                               std::vector<double>(bounds.begin(), bounds.end()), {},
                               [stats]() -> HistogramState {
                                 const StepSizes steps = stats().steps;
                                 return {.counts = {steps.counts.begin(), steps.counts.end()},
                                         .sum = static_cast<double>(steps.tokens)};
                               });
}

}  // namespace

void AddKvMemoryMetrics(Metrics& metrics, const KvLayout& layout, int blocks) {
  const std::vector<KvMemory> memory = KvMemoryByType(layout, blocks);
  const auto add = [&](const char* name, const char* help, const KvMemory& in_type) {
    metrics.AddGauge(name, help, {{"type", KvTypeName(in_type.type)}},
                     [bytes = static_cast<double>(in_type.bytes)] { return bytes; });
  };
  add("baton_kv_cache_bytes", "Memory of the KV cache, by its type.", memory.front());
  for (const KvMemory& in_type : memory) {
    add("baton_kv_cache_bytes_as", "Memory that the KV cache's blocks would take in each type.",
        in_type);
  }
}

void AddConfigMetric(Metrics& metrics, const EngineOptions& options, const KvLayout& layout,
                     int blocks) {
  metrics.AddInfo("baton_config_info", "What this process was started with; always 1.",
                  {{"block_size", absl::StrCat(layout.block_size)},
                   {"kv_blocks", absl::StrCat(blocks)},
                   {"kv_cache_dtype", KvTypeName(layout.dtype)},
                   {"max_model_len", absl::StrCat(options.max_model_len)},
                   {"max_num_batched_tokens", absl::StrCat(options.max_num_batched_tokens)},
                   {"max_num_seqs", absl::StrCat(options.max_num_seqs)}});
}

void AddGrammarMetrics(Metrics& metrics, const GrammarReader& grammars) {
  metrics.AddCounterFunction("baton_grammar_cache_queries_total",
                             "Grammars that requests brought here.", {},
                             [&grammars] { return double(grammars.stats().queries); });
  metrics.AddCounterFunction("baton_grammar_cache_hits_total",
                             "Grammars that requests brought here and that had been read before.",
                             {}, [&grammars] { return double(grammars.stats().hits); });
  metrics.AddGauge("baton_grammar_cache_bytes", "Memory of the grammars that are kept.", {},
                   [&grammars] { return double(grammars.stats().bytes); });
}

void AddDraftMetrics(Metrics& metrics, const DraftMemory& memory,
                     std::function<EngineStats()> stats) {
  const auto bytes = [&](const char* part, uint64_t of_part) {
    metrics.AddGauge("baton_draft_model_bytes", "Memory of the draft model.", {{"part", part}},
                     [of_part] { return static_cast<double>(of_part); });
  };
  bytes("weights", memory.weight_bytes);
  bytes("kv_cache", memory.cache_bytes);
  metrics.AddGauge(
      "baton_draft_kv_cache_blocks", "KV blocks of the draft model by state.", {{"state", "used"}},
      [stats = std::move(stats)] { return static_cast<double>(stats().draft_used_blocks); });
}

std::string DraftMemoryText(const DraftMemory& memory) {
  return absl::StrFormat("weights %.1f MB, KV cache %.1f MB",
                         static_cast<double>(memory.weight_bytes) * 1e-6,
                         static_cast<double>(memory.cache_bytes) * 1e-6);
}

WorkerMetrics::WorkerMetrics(Metrics& metrics, const std::function<EngineStats()>& stats,
                             Direction direction)
    : bytes_(metrics.AddCounter("baton_kv_transfer_bytes_total", "KV bytes on the wire.",
                                {{"direction", Name(direction)}})),
      transfer_duration_(metrics.AddHistogram("baton_kv_transfer_duration_seconds",
                                              "From a transfer's first byte to its commit.",
                                              TransferDurationBuckets(), {})),
      transfer_bytes_(metrics.AddHistogram("baton_kv_transfer_bytes", "KV bytes of one transfer.",
                                           TransferByteBuckets(), {})),
      queue_(metrics.AddHistogram(
          "baton_request_queue_seconds", "Time spent waiting, by stage.", RequestDurationBuckets(),
          {{"stage", direction == Direction::kSent ? "prefill" : "decode"}})),
      prefill_(metrics.AddHistogram("baton_request_prefill_seconds", "Computation of the prompt.",
                                    RequestDurationBuckets(), {})),
      decode_(metrics.AddHistogram("baton_request_decode_seconds",
                                   "From the first decode step to the last token.",
                                   RequestDurationBuckets(), {})) {
  AddEngineMetrics(metrics, stats);
  metrics.AddGauge("baton_kv_transfer_inflight", "Transfers under way.", {},
                   [this] { return static_cast<double>(inflight_.load()); });
  for (const char* reason : kFailureReasons) {
    failures_.emplace(reason, metrics.AddCounter("baton_kv_transfer_failures_total",
                                                 "Transfers that failed.", {{"reason", reason}}));
  }
  if (direction != Direction::kSent) {
    AddAuditMetrics(metrics);
    return;
  }
  exposed_ = metrics.AddHistogram(
      "baton_kv_transfer_exposed_seconds",
      "Part of a transfer that the prefill did not hide: from the last chunk to the commit.",
      TransferDurationBuckets(), {});
  bytes_saved_ = metrics.AddCounter("baton_kv_transfer_saved_bytes_total",
                                    "KV bytes not sent because the receiver held them.", {});
  bytes_resent_ = metrics.AddCounter("baton_kv_transfer_resent_bytes_total",
                                     "KV bytes sent again after damage or a lost connection.", {});
  messages_ = metrics.AddCounter("baton_kv_transfer_messages_total",
                                 "KV messages of committed transfers.", {});
}

void WorkerMetrics::AddAuditMetrics(Metrics& metrics) {
  ordered_audits_ = metrics.AddCounter(
      "baton_kv_audits_ordered_total",
      "Pushes that were chosen for an audit. One whose sequence ends first has no result.", {});
  for (const char* result : {"match", "mismatch", "skipped"}) {
    audits_.emplace(result, metrics.AddCounter("baton_kv_audits_total",
                                               "Audits of received KV, by what they found.",
                                               {{"result", result}}));
  }
  refused_pushes_ = metrics.AddCounter(
      "baton_kv_refused_pushes_total",
      "Pushes that were refused since they did not prove to be the expected ones.", {});
  metrics.AddGauge(
      "baton_kv_audit_enabled",
      "1 where received KV is audited: --audit-share is above 0 and numerics are exact.", {},
      [this] { return audit_enabled_.load() ? 1.0 : 0.0; });
  metrics.AddGauge("baton_kv_quarantined_pushers",
                   "Prefill workers that may not push here, since their KV proved to be wrong.", {},
                   [this] { return static_cast<double>(quarantined_.load()); });
}

void WorkerMetrics::TransferBytes(uint64_t bytes) { bytes_.Add(static_cast<double>(bytes)); }

void WorkerMetrics::BytesResent(uint64_t bytes) {
  if (bytes_resent_.has_value()) bytes_resent_->Add(static_cast<double>(bytes));
}

void WorkerMetrics::TransferDone(const Transfer& transfer) {
  transfer_duration_.Observe(Seconds(transfer.duration));
  transfer_bytes_.Observe(static_cast<double>(transfer.bytes));
  if (!exposed_.has_value()) return;
  exposed_->Observe(Seconds(transfer.exposed));
  bytes_saved_->Add(static_cast<double>(transfer.bytes_saved));
  messages_->Add(static_cast<double>(transfer.messages));
}

void WorkerMetrics::TransferFailed(const absl::Status& status) {
  if (!absl::IsCancelled(status)) failures_.at(FailureReason(status)).Add();
}

void WorkerMetrics::SequenceDone(absl::Duration queue, absl::Duration prefill,
                                 absl::Duration decode) {
  queue_.Observe(Seconds(queue));
  if (prefill > absl::ZeroDuration()) prefill_.Observe(Seconds(prefill));
  if (decode > absl::ZeroDuration()) decode_.Observe(Seconds(decode));
}

}  // namespace baton
