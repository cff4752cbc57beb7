#include "router/fleet/fleet.h"

#include <utility>
#include <vector>

namespace baton {

void Fleet::SetId(Worker& worker, uint64_t id) {
  by_id_.erase(worker.id);
  link_failures_.Forget(worker.id);
  worker.id = id;
  if (id != 0) by_id_[id] = &worker;
  ReadinessChanged(worker);
}

Worker* Fleet::Find(uint64_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

void Fleet::ReadinessChanged(Worker& worker) {
  const bool ready = worker.ready();
  WorkerSnapshot& seen = worker.seen;
  if (worker.listed && (!ready || seen.id != worker.id)) {
    ready_.Remove(seen.id);
    pages_.Unlist(worker);
    worker.listed = false;
  }
  if (seen.id != worker.id) {
    // What the worker was given was lost with the id.
    seen.id = worker.id;
    seen.own_sequences = seen.own_arriving = 0;
    // tests/planted_bugs: lease_alone_outlives_its_worker
    seen.own_prompts = seen.own_postponed = seen.own_prompt_tokens = seen.own_alone = 0;
    if (worker.prompt_time.busy()) worker.prompt_time.Set(false, loop_.Now());
  }
  if (worker.listed || !ready) return;
  worker.listed = true;
  pages_.List(worker);
  ready_.Add(worker.target.role == internal::v1::WORKER_ROLE_PREFILL ? ReadyWorkers::Role::kPrefill
                                                                     : ReadyWorkers::Role::kDecode,
             seen);
}

void Fleet::LoadChanged(Worker& worker) {
  const absl::Time now = loop_.Now();
  worker.seen.takes_requests = worker.breaker.Takes(now);
  worker.prompt_time.Set(worker.seen.own_prompts > worker.seen.own_postponed, now);
  if (worker.circuit_open != worker.breaker.open()) {
    worker.circuit_open = worker.breaker.open();
    if (on_circuit_) on_circuit_(worker.target, worker.circuit_open);
  }
  ready_.Changed(worker.id);
}

ReadyWorkers::Candidates Fleet::Choose(const WorkerNeeds& needs, absl::Span<const int32_t> prompt,
                                       const std::string& salt, const PlacementOptions& options,
                                       uint64_t turn) const {
  std::vector<ReadyWorkers::Held> held;
  if (options.policy == PlacementPolicy::kPrefixAware && ready_.has_room()) {
    held = pages_.Find(prompt, salt);
  }
  return ready_.Choose(needs, held, options, turn);
}

LinkEstimate Fleet::Link(uint64_t prefill, uint64_t decode) const {
  LinkEstimate link = links_.Get(prefill, decode, loop_.Now());
  const Worker* const pushes = Find(prefill);
  const Worker* const takes = Find(decode);
  link.impossible = pushes != nullptr && takes != nullptr && !Reaches(*pushes, *takes);
  return link;
}

}  // namespace baton
