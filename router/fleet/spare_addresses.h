// One worker at two addresses: a Service of both IP families, or a name and an address. The router
// uses the address that introduced the worker first; the other one is spare.
#pragma once

#include "absl/time/time.h"

#include "baton/internal/v1/worker.pb.h"
#include "router/fleet/worker.h"

namespace baton {

// Makes `worker`, which introduces itself with `info`, a spare address (Worker::spare_of) if a
// worker of its role that lives has the same name, incarnation, own address and certificate. Logs
// the address when it becomes spare. Returns whether it is spare. A worker that copies another's
// name and incarnation gains nothing: whichever came first stays.
bool TakeSpare(const WorkersByTarget& workers, Worker& worker, const internal::v1::WorkerInfo& info,
               absl::Time now);
// Whether the worker at the spare address is no longer used at its other address.
bool IsNeeded(const WorkersByTarget& workers, const Worker& spare);

}  // namespace baton
