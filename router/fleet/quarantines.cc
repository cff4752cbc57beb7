#include "router/fleet/quarantines.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "common/base/log.h"
#include "common/protocol/identity.h"

namespace baton {
namespace {

using internal::v1::WORKER_ROLE_DECODE;
using internal::v1::WORKER_ROLE_PREFILL;

// What worker.proto promises of quarantined_pushers.
constexpr size_t kMostQuarantines = 64;
constexpr size_t kMostQuarantineBytes = 2048;

}  // namespace

bool TakeQuarantines(Worker& worker, const internal::v1::WatchResponse& message) {
  if (worker.target.role != WORKER_ROLE_DECODE) return false;
  std::set<std::string> told;
  for (const std::string& pusher : message.quarantined_pushers()) {
    if (told.size() == kMostQuarantines) break;
    if (!pusher.empty() && pusher.size() <= kMostQuarantineBytes) told.insert(pusher);
  }
  // tests/planted_bugs: quarantine_not_told
  if (told == worker.quarantines) return false;
  worker.quarantines = std::move(told);
  return true;
}

// What proved to be wrong on one decode worker may be wrong on all.
void JudgeQuarantines(const WorkersByTarget& workers, Fleet& fleet,
                      const std::function<void(const WorkerTarget&, bool)>& on_change) {
  std::map<std::string, std::string> accusers;  // the last decode worker that says so, by pusher
  for (const auto& [target, decode] : workers) {
    for (const std::string& pusher : decode->quarantines) accusers[pusher] = decode->info.name();
  }
  for (const auto& [target, prefill] : workers) {
    if (target.role != WORKER_ROLE_PREFILL || prefill->id == 0) continue;
    const auto accuser = accusers.find(prefill->pusher_key());
    const std::string by = accuser == accusers.end() ? "" : accuser->second;
    if (by == prefill->quarantined_by) continue;
    if (!MayLog(*prefill, fleet.Now())) {
      // The metric shows it.
    } else if (prefill->quarantined_by.empty()) {
      LogError(
          "prefill worker '{}' at {} is not used: decode worker '{}' found wrong KV in what it "
          "pushed; restart that decode worker once the cause is known and removed",
          LogSafe(prefill->info.name()), target.address, LogSafe(by));
    } else if (by.empty()) {
      LogInfo("prefill worker '{}' at {} may be used again: no decode worker quarantines it",
              LogSafe(prefill->info.name()), target.address);
    }
    prefill->quarantined_by = by;
    if (on_change) on_change(target, !by.empty());
    fleet.ReadinessChanged(*prefill);
  }
}

}  // namespace baton
