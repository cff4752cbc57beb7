#include "router/fleet/fleet_weights.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"

#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/protocol/identity.h"

namespace baton {
namespace {

const std::string& WeightsOf(const Worker& worker) {
  return worker.info.identity().weights_digest();
}

// Whether the worker's weights are compared with those of others.
bool Counts(const Worker& worker) {
  return worker.wanted && (worker.problem.empty() || worker.other_weights) &&
         !WeightsOf(worker).empty();
}

// The weights of a worker, for people.
std::string WeightsText(const Worker& worker) {
  const std::string& type = worker.info.weights_type();
  return absl::StrCat(LogSafe(type), type.empty() ? "" : " ", ToHex(WeightsOf(worker).substr(0, 6)),
                      "...");
}

const Worker* FindUser(const WorkersByTarget& workers, const std::string& weights) {
  for (const auto& [target, worker] : workers) {
    if (Counts(*worker) && WeightsOf(*worker) == weights) return worker.get();
  }
  return nullptr;
}

void Refuse(Worker& worker, const Worker& user, absl::Time now) {
  worker.other_weights = true;
  // Clients may read the problem, so it names no hosts.
  worker.problem = absl::StrCat("serves other weights (", WeightsText(worker),
                                ") than the workers that are used (", WeightsText(user), ")");
  worker.reach.Refused(worker.problem, now);
  if (!MayLog(worker, now)) return;
  LogError(
      "{} worker '{}' at {} is not used: it {}, such as '{}' at {}; give both the same model, or "
      "give the router --allow-mixed-revisions while one model replaces another",
      WorkerRoleName(worker.target.role), LogSafe(worker.info.name()), worker.target.address,
      worker.problem, LogSafe(user.info.name()), user.target.address);
}

void Accept(Worker& worker, absl::Time now) {
  worker.other_weights = false;
  worker.problem.clear();
  worker.reach.Refused("", now);
  if (!MayLog(worker, now)) return;
  LogInfo("{} worker '{}' at {} is used from now on: its weights ({}) are those of most workers",
          WorkerRoleName(worker.target.role), LogSafe(worker.info.name()), worker.target.address,
          WeightsText(worker));
}

}  // namespace

std::string ChooseWeights(const WorkersByTarget& workers, const ExpectedModel& expected,
                          const std::string& used) {
  struct Group {
    size_t workers = 0;
    size_t rank = 0;
  };
  std::map<std::string, Group> groups;  // by the digest of their weights
  for (const auto& [target, worker] : workers) {
    if (!Counts(*worker)) continue;
    Group& group = groups[WeightsOf(*worker)];
    ++group.workers;
    const auto& samples = expected.sample_digests;
    const auto found =
        std::find(samples.begin(), samples.end(), worker->info.identity().sample_digest());
    group.rank = static_cast<size_t>(found - samples.begin());
  }
  const auto is_less = [&used](const auto& a, const auto& b) {
    return std::tuple(a.second.workers, b.second.rank, a.first == used) <
           std::tuple(b.second.workers, a.second.rank, b.first == used);
  };
  const auto most = std::max_element(groups.begin(), groups.end(), is_less);
  return most == groups.end() ? "" : most->first;
}

void MarkOtherWeights(const WorkersByTarget& workers, const std::string& used, absl::Time now,
                      const std::function<void(Worker&)>& changed) {
  const Worker* const user = FindUser(workers, used);
  for (const auto& [target, worker] : workers) {
    if (user == nullptr || !Counts(*worker)) continue;
    const bool other = WeightsOf(*worker) != used;
    if (other == worker->other_weights) continue;
    other ? Refuse(*worker, *user, now) : Accept(*worker, now);
    changed(*worker);
  }
}

}  // namespace baton
