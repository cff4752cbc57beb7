// Reports refused pushes, which could not prove that they are the expected ones, to the operator.
#pragma once

#include "absl/strings/string_view.h"

#include "common/access/audit_log.h"
#include "common/base/clock.h"
#include "common/worker/worker_metrics.h"

namespace baton {

// Counts refused pushes, and writes each into the audit log. Thread-safe.
class PushRefusals {
 public:
  // Borrows `metrics`; null: nothing is counted.
  explicit PushRefusals(WorkerMetrics* metrics) : metrics_(metrics) {}

  // `peer`: SPIFFE id in the stream's certificate. `address`: address of its sender. `why`: the
  // reason that the stream received.
  void Refused(absl::string_view peer, absl::string_view address, absl::string_view why) {
    if (metrics_ != nullptr) metrics_->PushRefused();
    audit_log_.Refused({.method = "/baton.internal.v1.KvTransferService/Push",
                        .peer = peer,
                        .address = address,
                        .reason = why},
                       SteadyNow());
  }

 private:
  WorkerMetrics* const metrics_;
  AuditLog audit_log_;
};

}  // namespace baton
