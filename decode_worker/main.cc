// baton-decode-worker: KV caches in, tokens out; or prompts, where no prefill worker is wanted.
#include "common/protocol/worker_status.h"
#include "common/worker/worker_process.h"
#include "decode_worker/attempt_registry.h"
#include "decode_worker/decode_service.h"
#include "decode_worker/push_service.h"

namespace baton {
namespace {

int Main(int argc, char** argv) {
  const auto process =
      WorkerProcess::Start("baton-decode-worker", internal::v1::WORKER_ROLE_DECODE, argc, argv);
  const DecodeServiceOptions options{.worker_name = process->name(),
                                     .identity = process->identity(),
                                     .shape = process->shape(),
                                     .secure = process->credentials().secure(),
                                     .strict_kv_dtype = process->flags().handoff.strict_dtype,
                                     .limits = {},
                                     .staging = process->staging(),
                                     .metrics = &process->metrics()};
  AttemptRegistry registry(options.max_calls);
  DecodeService decode(process->engine(), registry, options);
  PushService push(registry, options);
  return process->Run(
      {&decode, &push},
      {.begin = [&] { decode.Drain(); },
       .drained = [&] { return decode.calls() == 0; },
       .end_rest = [&] { registry.EndAll(DrainingStatus(options.worker_name, kStageDecode)); }});
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) { return baton::Main(argc, argv); }
