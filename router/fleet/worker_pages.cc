#include "router/fleet/worker_pages.h"

namespace baton {

void WorkerPages::Add(Worker& worker) {
  worker.slot = next_slot_++;
  by_slot_[worker.slot] = &worker;
}

void WorkerPages::Remove(const Worker& worker) {
  Forget(worker);
  by_slot_.erase(worker.slot);
}

bool WorkerPages::Apply(const Worker& worker, const internal::v1::PrefixDelta& delta) {
  return index_.Apply(worker.slot, {.version = delta.version(),
                                    .full = delta.full(),
                                    .added = delta.added(),
                                    .removed = delta.removed()});
}

void WorkerPages::Unlist(const Worker& worker) {
  const auto root = roots_.find(worker.prefix_root);
  if (--root->second == 0) roots_.erase(root);
}

std::vector<ReadyWorkers::Held> WorkerPages::Find(absl::Span<const int32_t> prompt,
                                                  const std::string& salt) const {
  std::vector<ReadyWorkers::Held> held;
  for (const auto& [root, workers] : roots_) {
    for (const PrefixIndex::Hit& hit : index_.Find(root, prompt, salt)) {
      held.push_back({.worker_id = by_slot_.find(hit.worker)->second->id, .tokens = hit.tokens});
    }
  }
  return held;
}

}  // namespace baton
