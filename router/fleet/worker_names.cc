#include "router/fleet/worker_names.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace baton {
namespace {

// Role, name, and whether the addresses are IPv6.
using Family = std::tuple<internal::v1::WorkerRole, absl::string_view, bool>;

Family FamilyOf(const Worker& worker, bool other = false) {
  const bool v6 = absl::StartsWith(worker.target.address, "[");
  return {worker.target.role, worker.name.source, v6 != other};
}

bool NeverAnswered(const Worker& worker) { return worker.last_heard == absl::InfinitePast(); }

}  // namespace

void TakeName(Worker& worker, bool listed, const TargetNames& names) {
  const auto found = names.find(worker.target);
  TargetName name = found == names.end() ? TargetName() : found->second;
  if (listed) name.vanished = false;
  // A lookup that failed leaves no addresses, which does not mean that they have changed.
  if (name.addresses.empty()) name.addresses = worker.name.addresses;
  worker.moved |= name.addresses != worker.name.addresses;
  worker.name = std::move(name);
  worker.wanted = listed || (worker.wanted && worker.name.vanished && AnswersWithoutName(worker));
}

bool AnswersWithoutName(const Worker& worker) {
  return worker.id != 0 && worker.watch != nullptr &&
         (worker.state == internal::v1::WORKER_STATE_READY ||
          worker.state == internal::v1::WORKER_STATE_STARTING);
}

bool AreOfDeadFamilies(const std::vector<const Worker*>& unready, const WorkersByTarget& workers) {
  if (unready.empty()) return true;
  const bool all_may_be = std::all_of(unready.begin(), unready.end(), [](const Worker* worker) {
    return NeverAnswered(*worker) && !worker->name.source.empty();
  });
  if (!all_may_be) return false;
  std::set<Family> heard, ready;
  for (const auto& [target, worker] : workers) {
    if (!NeverAnswered(*worker)) heard.insert(FamilyOf(*worker));
    if (worker->ready()) ready.insert(FamilyOf(*worker));
  }
  return std::all_of(unready.begin(), unready.end(), [&](const Worker* worker) {
    return heard.count(FamilyOf(*worker)) == 0 && ready.count(FamilyOf(*worker, true)) != 0;
  });
}

}  // namespace baton
