#include "router/fleet/spare_addresses.h"

#include <utility>

#include "common/base/log.h"
#include "common/protocol/identity.h"

namespace baton {
namespace {

bool Lives(const Worker& worker) { return worker.id != 0 && worker.wanted; }

// A worker that is not used at its address may be used at another one.
bool IsSame(const Worker& known, const Worker& worker, const internal::v1::WorkerInfo& info) {
  return known.problem.empty() && info.incarnation() != 0 &&
         known.info.incarnation() == info.incarnation() && known.info.name() == info.name() &&
         known.info.address() == info.address() && known.peer_id == worker.peer_id;
}

}  // namespace

bool TakeSpare(const WorkersByTarget& workers, Worker& worker, const internal::v1::WorkerInfo& info,
               absl::Time now) {
  const std::string before = std::exchange(worker.spare_of, "");
  for (const auto& [target, known] : workers) {
    if (known.get() == &worker || target.role != worker.target.role) continue;
    if (!Lives(*known) || !IsSame(*known, worker, info)) continue;
    worker.spare_of = target.address;
    if (before != worker.spare_of && MayLog(worker, now)) {
      LogInfo("{} worker '{}' at {} is the one at {}: the router uses {} and keeps {} as a spare",
              WorkerRoleName(target.role), LogSafe(info.name()), worker.target.address,
              target.address, target.address, worker.target.address);
    }
    return true;
  }
  return false;
}

bool IsNeeded(const WorkersByTarget& workers, const Worker& spare) {
  const auto first = workers.find({.role = spare.target.role, .address = spare.spare_of});
  return first == workers.end() || !Lives(*first->second);
}

}  // namespace baton
