#include "router/router_flags.h"

#include "common/base/status_macros.h"

namespace baton {

void RouterFlags::AddTo(FlagSet& flags) {
  AddServerFlags(flags, server);
  flags.AddString("model", model, "GGUF file of the model; its tokenizer part is enough");
  flags.AddString("served-model-name", served_model_name,
                  "the model's name to clients (default: the file's name)");
  flags.AddStrings("prefill", router.workers.prefill,
                   "prefill workers: host:port or dns:///name:port, repeated");
  flags.AddStrings("decode", router.workers.decode,
                   "decode workers: host:port or dns:///name:port, repeated");
  flags.AddString("workers-file", router.workers.workers_file,
                  "file of lines 'prefill HOST:PORT' and 'decode HOST:PORT', read every 2 s");
  flags.AddString("policy", policy, "how workers are chosen", {"round_robin", "least_loaded"});
  flags.AddString("disaggregate", disaggregate,
                  "where prompts are prefilled: always on prefill workers, never (on the decode "
                  "worker), auto: on prefill workers while one is ready",
                  {"auto", "always", "never"});
  flags.AddDuration("resume-timeout", router.runner.machine.worker_timeout, absl::Milliseconds(1),
                    absl::Hours(1), "how long an admitted request waits for a worker");
  flags.AddDuration("stall-timeout", router.runner.machine.stall_timeout, absl::Milliseconds(1),
                    absl::Hours(1), "how long a client may leave its stream unread");
  flags.AddInt("max-waiting-requests", max_waiting_requests, 1, 1 << 20,
               "requests that may wait in the router");
  flags.AddBytes("max-waiting-bytes", max_waiting_bytes,
                 "bytes of requests that may wait in the router");
  flags.AddDuration("max-queue-time", max_queue_time, absl::ZeroDuration(), absl::Hours(1),
                    "refuse a request that would wait longer for a worker; 0: no limit");
  flags.AddInt("tokenizer-threads", router.tokenizer_threads, 1, 64, "threads that tokenise");
}

absl::Status RouterFlags::Finish() {
  BATON_RETURN_IF_ERROR(ValidateServerFlags(server));
  if (model.empty()) {
    return absl::InvalidArgumentError("--model: not given; name the GGUF file of the model");
  }
  BATON_RETURN_IF_ERROR(CheckWorkerSources(router.workers));
  router.admission.requests = static_cast<uint32_t>(max_waiting_requests);
  router.admission.bytes = max_waiting_bytes;
  router.admission.max_queue_time =
      max_queue_time == absl::ZeroDuration() ? absl::InfiniteDuration() : max_queue_time;
  router.runner.placement.policy =
      policy == "round_robin" ? PlacementPolicy::kRoundRobin : PlacementPolicy::kLeastLoaded;
  router.runner.placement.disaggregation = disaggregate == "always"  ? Disaggregation::kAlways
                                           : disaggregate == "never" ? Disaggregation::kNever
                                                                     : Disaggregation::kAuto;
  return absl::OkStatus();
}

}  // namespace baton
