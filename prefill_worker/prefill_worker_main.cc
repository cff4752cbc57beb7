#include "prefill_worker/prefill_worker_main.h"

#include "common/protocol/worker_status.h"
#include "common/worker/worker_process.h"
#include "prefill_worker/prefill_service.h"

namespace baton {

int PrefillWorkerMain(int argc, char** argv) {
  const auto process =
      WorkerProcess::Start("baton-prefill-worker", internal::v1::WORKER_ROLE_PREFILL, argc, argv);
  ChannelCache channels(
      {.credentials = process->credentials(), .connections = process->flags().handoff.connections});
  const PrefillServiceOptions options{.worker_name = process->name(),
                                      .identity = process->identity(),
                                      .shape = process->shape(),
                                      .kv_wire_dtype = process->flags().handoff.wire_dtype,
                                      .strict_kv_dtype = process->flags().handoff.strict_dtype,
                                      .limits = {},
                                      .staging = process->staging(),
                                      .metrics = &process->metrics(),
                                      .grammars = process->grammars()};
  PrefillService service(process->engine(), channels, options);
  return process->Run(
      {&service},
      {.begin = [&] { service.Drain(); },
       .drained = [&] { return service.calls() == 0; },
       .end_rest = [&] { service.EndAll(DrainingStatus(options.worker_name, kStagePrefill)); }});
}

}  // namespace baton
