#include "bench/serve/trace_flags.h"

#include "absl/time/time.h"

#include "common/base/status_macros.h"

namespace baton {

void AddTraceFlags(FlagSet& flags, std::string& path, TraceOptions& trace) {
  flags.AddString("trace", path,
                  "file with lengths, shared prefixes and, without a rate or concurrency, times of "
                  "requests: Mooncake JSONL, Azure CSV, or lines 'prompt tokens, output tokens, "
                  "page ids'");
  flags.AddDouble("time-scale", trace.time_scale, 1e-6, 1e6,
                  "on the times of the trace; 0.5: twice as fast");
  flags.AddDouble("input-scale", trace.input_scale, 1e-6, 1e6,
                  "on the prompts of the trace and what they share");
  flags.AddDouble("output-scale", trace.output_scale, 1e-6, 1e6, "on the answers of the trace");
  flags.AddInt("max-input-len", trace.max_input_tokens, 1, 1 << 20,
               "tokens that longer prompts of the trace are cut to");
  flags.AddInt("max-output-len", trace.max_output_tokens, 1, 1 << 20,
               "tokens that longer answers of the trace are cut to");
  flags.AddDuration("trace-start", trace.start, absl::ZeroDuration(), absl::Hours(1 << 20),
                    "time of the trace, unscaled, to begin at");
  flags.AddInt("num-prompts", trace.max_requests, 0, 1 << 30,
               "take so many requests of the trace; 0: all");
}

absl::Status CheckTraceFlags(const FlagSet& flags) {
  for (const char* of_trace : {"time-scale", "input-scale", "output-scale", "max-input-len",
                               "max-output-len", "trace-start", "num-prompts"}) {
    BATON_RETURN_IF_ERROR(flags.CheckNeeds(of_trace, "trace"));
  }
  return absl::OkStatus();
}

}  // namespace baton
