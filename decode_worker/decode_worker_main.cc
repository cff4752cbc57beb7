#include "decode_worker/decode_worker_main.h"

#include <optional>
#include <string>
#include <utility>

#include "common/base/numerics.h"
#include "common/base/random.h"
#include "common/protocol/worker_status.h"
#include "common/worker/worker_process.h"
#include "decode_worker/attempt_registry.h"
#include "decode_worker/decode_service.h"
#include "decode_worker/kv_audit.h"
#include "decode_worker/push_service.h"

namespace baton {
namespace {

// Where numerics are not exact nothing can be compared.
bool Audits(WorkerProcess& process) {
  return process.flags().handoff.audit_share > 0 && process.engine().can_audit() &&
         Numerics(process.shape().numerics()).bits_are_equal();
}

}  // namespace

int DecodeWorkerMain(int argc, char** argv) {
  // Outlives the threads of the process, which call it.
  std::optional<KvAudit> audit;
  const auto process =
      WorkerProcess::Start("baton-decode-worker", internal::v1::WORKER_ROLE_DECODE, argc, argv);
  process->metrics().SetAuditEnabled(Audits(*process));
  if (Audits(*process)) {
    audit.emplace(process->engine(),
                  KvAudit::Options{.share = process->flags().handoff.audit_share,
                                   .random = RandomUint64,
                                   .metrics = &process->metrics(),
                                   .on_quarantine = [&process] { process->StateChanged(); }});
    process->AddToWatch([&audit](internal::v1::WatchResponse& message) {
      for (std::string& pusher : audit->quarantined()) {
        message.add_quarantined_pushers(std::move(pusher));
      }
    });
  }
  const DecodeServiceOptions options{.worker_name = process->name(),
                                     .identity = process->identity(),
                                     .shape = process->shape(),
                                     .secure = process->credentials().secure(),
                                     .strict_kv_dtype = process->flags().handoff.strict_dtype,
                                     .limits = {},
                                     .staging = process->staging(),
                                     .metrics = &process->metrics(),
                                     .audit = audit ? &*audit : nullptr,
                                     .grammars = process->grammars()};
  AttemptRegistry registry(options.max_calls);
  DecodeService decode(process->engine(), registry, options);
  PushService push(registry, options);
  return process->Run(
      {&decode, &push},
      {.begin = [&] { decode.Drain(); },
       .drained = [&] { return decode.calls() == 0; },
       .end_rest = [&] { registry.EndAll(DrainingStatus(options.worker_name, kStageDecode)); }});
}

}  // namespace baton
