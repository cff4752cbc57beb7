#include "client/plan/plan_command.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "bench/serve/trace_flags.h"
#include "client/plan/plan_search.h"
#include "client/plan/planned_load.h"
#include "common/base/small_file.h"
#include "common/base/standard_output.h"
#include "common/base/status_macros.h"
#include "common/flags/flag_group.h"
#include "common/flags/shared_helps.h"

namespace baton {
namespace {

constexpr char kPlanProgram[] = "baton plan";
constexpr int kExitNoFleet = 1;
constexpr size_t kMostRatesBytes = size_t{16} << 20;
constexpr int kMostPlannedWorkers = 1 << 16;

absl::Status CheckPlanFlags(const FlagSet& flags) {
  BATON_RETURN_IF_ERROR(flags.CheckNotBoth("trace", "input-len"));
  BATON_RETURN_IF_ERROR(flags.CheckNotBoth("trace", "output-len"));
  BATON_RETURN_IF_ERROR(flags.CheckNeeds("duration", "request-rate"));
  return CheckTraceFlags(flags);
}

absl::Status CheckPlanOptions(const PlanOptions& options) {
  if (options.rates.empty()) {
    return absl::InvalidArgumentError(
        "--rates is missing; name a file with the output of `baton bench engine --json`");
  }
  if (options.load.trace.empty() && options.load.rate == 0) {
    return absl::InvalidArgumentError(
        "--trace is missing; name a file of requests, or give a --request-rate");
  }
  const bool searches = options.prefill_workers == 0 || options.decode_workers == 0;
  if (searches && options.objective.empty()) {
    return absl::InvalidArgumentError(
        "--objective is missing; give the limits that a good request must meet, such as "
        "ttft=500ms, or give both --prefill-workers and --decode-workers");
  }
  return absl::OkStatus();
}

absl::StatusOr<PlacementOptions> PlacementOf(const PlanOptions& options) {
  PlacementOptions placement{.policy = options.policy};
  if (options.disaggregate == "auto") return placement;
  if (options.disaggregate == "always") {
    placement.disaggregation = Disaggregation::kAlways;
    return placement;
  }
  placement.disaggregation = Disaggregation::kByLength;
  if (absl::SimpleAtoi(options.disaggregate, &placement.local_below_tokens)) return placement;
  return absl::InvalidArgumentError(
      absl::StrCat("--disaggregate: must be auto, always or a number of tokens, not '",
                   options.disaggregate, "'"));
}

absl::StatusOr<StepCosts> ReadCosts(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadSmallFileOrPipe(path, kMostRatesBytes);
  if (!text.ok()) {
    return absl::Status(text.status().code(), absl::StrCat("--rates: ", text.status().message()));
  }
  return StepCosts::Parse(*text, path);
}

// What a worker's KV cache holds, in whole blocks.
absl::StatusOr<int64_t> KvTokens(const PlanOptions& options, const StepCosts::Facts& facts) {
  const auto bytes =
      static_cast<int64_t>(std::min<uint64_t>(options.kv_cache_memory_bytes, uint64_t{1} << 60));
  const int64_t blocks = bytes / facts.kv_bytes_per_token / facts.block_size;
  if (blocks >= 2) return blocks * facts.block_size;
  return absl::InvalidArgumentError(
      absl::StrCat("--kv-cache-memory-bytes: ", bytes, " bytes cannot hold two KV cache blocks of ",
                   facts.block_size * facts.kv_bytes_per_token, " bytes; give more"));
}

absl::StatusOr<FleetOptions> FleetOf(const PlanOptions& options, const StepCosts& prefill,
                                     const StepCosts& decode) {
  if (prefill.facts().kv_bytes_per_token != decode.facts().kv_bytes_per_token ||
      prefill.facts().layers != decode.facts().layers) {
    return absl::InvalidArgumentError(
        absl::StrCat("--decode-rates: ", options.decode_rates,
                     " was not measured with the same model and KV cache type as ", options.rates,
                     "; measure both with the same --model and --kv-cache-dtype"));
  }
  const auto engine = [&](const StepCosts::Facts& facts) {
    return PlannedEngine::Options{.max_num_seqs = options.max_num_seqs,
                                  .max_num_batched_tokens = facts.max_num_batched_tokens,
                                  .block_tokens = facts.block_size};
  };
  FleetOptions fleet;
  BATON_ASSIGN_OR_RETURN(fleet.placement, PlacementOf(options));
  BATON_ASSIGN_OR_RETURN(fleet.objective, ParseLoadObjective(options.objective));
  fleet.prefill = engine(prefill.facts());
  fleet.decode = engine(decode.facts());
  BATON_ASSIGN_OR_RETURN(fleet.prefill_kv_tokens, KvTokens(options, prefill.facts()));
  BATON_ASSIGN_OR_RETURN(fleet.decode_kv_tokens, KvTokens(options, decode.facts()));
  if (options.link_bytes_per_s == 0) {
    return absl::InvalidArgumentError("--link-bytes-per-second: must be above 0");
  }
  fleet.link_bytes_per_s = static_cast<double>(options.link_bytes_per_s);
  fleet.request_overhead_ns = absl::ToInt64Nanoseconds(options.request_overhead);
  fleet.max_queue_ns = absl::ToInt64Nanoseconds(options.max_queue_time);
  fleet.prefill_workers = options.prefill_workers;
  fleet.decode_workers = options.decode_workers;
  return fleet;
}

// With a worker for each request more workers change nothing.
int MostWorkers(const PlannedLoad& load) {
  return static_cast<int>(std::min<size_t>(kMostPlannedWorkers, 2 * load.requests.size()));
}

}  // namespace

absl::StatusOr<PlanReport> MakePlan(const PlanOptions& options) {
  BATON_RETURN_IF_ERROR(CheckPlanOptions(options));
  BATON_ASSIGN_OR_RETURN(const StepCosts prefill, ReadCosts(options.rates));
  BATON_ASSIGN_OR_RETURN(
      const StepCosts decode,
      ReadCosts(options.decode_rates.empty() ? options.rates : options.decode_rates));
  BATON_ASSIGN_OR_RETURN(FleetOptions fleet, FleetOf(options, prefill, decode));
  BATON_ASSIGN_OR_RETURN(
      const PlannedLoad load,
      MakePlannedLoad(options.load,
                      {.seed = static_cast<uint64_t>(options.seed), .trace = options.trace},
                      options.duration));
  PlanReport report{.model = prefill.facts().model, .objective = options.objective, .result = {}};
  if (fleet.prefill_workers == 0 || fleet.decode_workers == 0) {
    const FleetSearch search{.fixed = {fleet.prefill_workers, fleet.decode_workers},
                             .good_share = options.good_share,
                             .most_workers = MostWorkers(load)};
    const auto offered = static_cast<double>(load.requests.size());
    const auto replay = [&](FleetSize size) {
      FleetOptions tried = fleet;
      tried.prefill_workers = size.prefill;
      tried.decode_workers = size.decode;
      tried.most_bad = static_cast<uint64_t>(offered * (1 - options.good_share) + 1e-9);
      return PlannedFleet(tried, prefill, decode, load).Run();
    };
    BATON_ASSIGN_OR_RETURN(report.found, FindFleet(search, replay));
    fleet.prefill_workers = report.found->size.prefill;
    fleet.decode_workers = report.found->size.decode;
  }
  report.result = PlannedFleet(fleet, prefill, decode, load).Run();
  report.warnings = PlanWarnings(report.result, decode);
  return report;
}

void PlanCommand::AddFlags(FlagSet& flags) {
  flags.SetGroup(FlagGroup::kEngine);
  flags.AddString("rates=FILE", options_.rates,
                  "Output of `baton bench engine --json` on a machine like a worker's");
  flags.AddString(
      "decode-rates=FILE", options_.decode_rates,
      "Output of `baton bench engine --json` on a machine like a decode worker's, if it "
      "differs from --rates");
  AddGeneratedLoadFlags(flags, options_.load, options_.seed);
  flags.AddDuration("duration", options_.duration, absl::Milliseconds(1), absl::Hours(24 * 365),
                    "Time in which requests arrive at --request-rate");
  AddTraceFlags(flags, options_.load.trace, options_.trace);
  AddObjectiveFlag(flags, options_.objective);
  flags.AddDouble("goodput-target=SHARE", options_.good_share, 0.001, 1,
                  "Share of the requests that must meet --objective when --prefill-workers or "
                  "--decode-workers is 0");
  AddFleetFlags(flags);
  flags.SetGroup(FlagGroup::kOutput);
  flags.AddBool("json", options_.json, kJsonHelp);
  flags.ShowFirst({"rates", "trace", "request-rate", "input-len", "output-len", "prefill-workers",
                   "decode-workers", "objective", "goodput-target", "json"});
  flags.AddExample("baton plan --rates rates.json --request-rate 20 --objective ttft=2s",
                   "Find how few workers answer 20 requests per second");
  flags.AddExample(
      "baton plan --rates rates.json --trace load.jsonl --objective ttft=2s,itl_p95=50ms",
      "Find how few workers answer the requests of a trace");
}

void PlanCommand::AddFleetFlags(FlagSet& flags) {
  flags.SetGroup(FlagGroup::kPrefillDecode);
  flags.AddInt("prefill-workers", options_.prefill_workers, 0, kMostPlannedWorkers,
               "Number of prefill workers; 0: find the least number that meets --objective");
  flags.AddInt("decode-workers", options_.decode_workers, 0, kMostPlannedWorkers,
               "Number of decode workers; 0: find the least number that meets --objective");
  flags.AddNamed<PlacementPolicy>(
      "policy", options_.policy,
      "Rule for choosing workers. round_robin: in turn; least_loaded: by queued work; "
      "prefix_aware: by queued work and cached prefixes",
      {{"prefix_aware", PlacementPolicy::kPrefixAware},
       {"least_loaded", PlacementPolicy::kLeastLoaded},
       {"round_robin", PlacementPolicy::kRoundRobin}});
  flags.AddString("disaggregate=auto|always|N", options_.disaggregate,
                  "Workers that prefill prompts. always: prefill workers; auto: those estimated to "
                  "be faster; N: prefill workers if at least N tokens are not cached");
  flags.AddDuration("max-queue-time", options_.max_queue_time, absl::ZeroDuration(),
                    absl::Hours(1 << 20),
                    "Longest time that a request may wait in the router before it is rejected");
  flags.AddInt("max-num-seqs", options_.max_num_seqs, 1, 4096,
               "Maximum number of sequences in a worker's batch");
  flags.AddBytes("kv-cache-memory-bytes", options_.kv_cache_memory_bytes,
                 "Memory of each worker's KV cache");
  flags.AddBytes(
      "link-bytes-per-second", options_.link_bytes_per_s,
      "Network bandwidth of each worker for KV caches, in bytes per second in each direction");
  flags.AddDuration("request-overhead", options_.request_overhead, absl::ZeroDuration(),
                    absl::Seconds(10),
                    "Fixed time that each request takes for the router and RPCs, besides waiting, "
                    "prefill and KV transfer");
}

int PlanCommand::Run(const FlagSet& flags) {
  if (const absl::Status status = CheckPlanFlags(flags); !status.ok()) {
    return ExitUsage(kPlanProgram, status);
  }
  const absl::StatusOr<PlanReport> report = MakePlan(options_);
  if (!report.ok()) {
    const int code = ExitUsage(kPlanProgram, report.status());
    return absl::IsOutOfRange(report.status()) ? kExitNoFleet : code;
  }
  WriteOutput(options_.json ? FormatPlanJson(*report) : FormatPlanTable(*report));
  return 0;
}

}  // namespace baton
