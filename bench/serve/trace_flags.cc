#include "bench/serve/trace_flags.h"

#include <cstdint>

#include "absl/time/time.h"

#include "common/base/status_macros.h"
#include "common/flags/flag_group.h"

namespace baton {

void AddTraceFlags(FlagSet& flags, std::string& path, TraceOptions& trace) {
  flags.SetGroup(FlagGroup::kLoad);
  flags.AddString("trace=FILE", path,
                  "Trace to replay, with the lengths, shared prefixes and, optionally, arrival "
                  "times of requests: Mooncake JSONL, Azure CSV, or lines of `prompt tokens, "
                  "output tokens, ids of the prompt's blocks (equal ids: a shared prefix)`");
  flags.AddDouble("time-scale", trace.time_scale, 1e-6, 1e6,
                  "Factor on the arrival times of --trace; 0.5 sends requests twice as fast");
  flags.AddDouble("input-scale", trace.input_scale, 1e-6, 1e6,
                  "Factor on the prompt lengths of --trace, shared prefixes included");
  flags.AddDouble("output-scale", trace.output_scale, 1e-6, 1e6,
                  "Factor on the answer lengths of --trace");
  flags.AddInt("max-input-len", trace.max_input_tokens, 1, 1 << 20,
               "Length in tokens to which longer prompts of --trace are cut");
  flags.AddInt("max-output-len", trace.max_output_tokens, 1, 1 << 20,
               "Length in tokens to which longer answers of --trace are cut");
  flags.AddDuration("trace-start", trace.start, absl::ZeroDuration(), absl::Hours(1 << 20),
                    "Time of --trace at which to begin, before --time-scale is applied");
  flags.AddInt("num-prompts", trace.max_requests, 0, 1 << 30,
               "Number of requests to take from --trace; 0: all");
}

void AddGeneratedLoadFlags(FlagSet& flags, LoadClass& load, int& seed) {
  flags.SetGroup(FlagGroup::kLoad);
  flags.AddDouble("request-rate", load.rate, 0, 1e6,
                  "Requests per second, at random times that do not depend on answers (a Poisson "
                  "process), instead of the times of --trace; 0: no rate");
  flags.AddInt("input-len", load.input_tokens, 1, 1 << 20,
               "Tokens of each prompt; --trace has lengths of its own");
  flags.AddInt("output-len", load.output_tokens, 1, 1 << 20,
               "Tokens of each answer; --trace has lengths of its own");
  flags.AddInt("seed", seed, 0, INT32_MAX,
               "Seed of the load; the same seed gives the same load again");
}

void AddObjectiveFlag(FlagSet& flags, std::string& objective) {
  flags.SetGroup(FlagGroup::kLoad);
  flags.AddString("objective=LIMITS", objective,
                  "Limits that a good request meets, such as "
                  "ttft=500ms,itl_p95=100ms,itl=1s,tpot=50ms,e2e=10s");
}

absl::Status CheckTraceFlags(const FlagSet& flags) {
  for (const char* of_trace : {"time-scale", "input-scale", "output-scale", "max-input-len",
                               "max-output-len", "trace-start", "num-prompts"}) {
    BATON_RETURN_IF_ERROR(flags.CheckNeeds(of_trace, "trace"));
  }
  return absl::OkStatus();
}

}  // namespace baton
