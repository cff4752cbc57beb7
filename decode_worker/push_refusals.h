// What an operator is told of pushes that did not prove to be the expected ones.
#pragma once

#include "absl/strings/string_view.h"

#include "common/access/audit_log.h"
#include "common/base/clock.h"
#include "common/worker/worker_metrics.h"

namespace baton {

// Counts them, and writes each into the audit log. Thread-safe.
class PushRefusals {
 public:
  // Borrows `metrics`; null: nothing is counted.
  explicit PushRefusals(WorkerMetrics* metrics) : metrics_(metrics) {}

  // `peer` is the SPIFFE id of the stream's certificate, `address` where it comes from, and `why`
  // what the stream was told.
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
