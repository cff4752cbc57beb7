#include "router/fleet/worker_pages.h"

#include <algorithm>

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
    std::vector<uint64_t> pages;
    for (const PrefixIndex::Hit& hit : index_.Find(root, prompt, salt, &pages)) {
      const Worker& worker = *by_slot_.find(hit.worker)->second;
      const bool any_window = worker.seen.groups.any_window();
      held.push_back(
          {.worker_id = worker.id,
           .tokens = any_window ? Served(worker, hit.tokens, prompt, pages) : hit.tokens});
    }
  }
  return held;
}

std::vector<WorkerPages::ReusedPage> WorkerPages::MostReused(size_t most,
                                                             size_t most_workers) const {
  std::vector<ReusedPage> pages;
  for (const PrefixReuse::Page& page : reuse_.MostReused(most)) {
    const absl::Span<const uint32_t> holders = index_.Holders(page.page);
    ReusedPage& one =
        pages.emplace_back(ReusedPage{.page = page, .holders = holders.size(), .workers = {}});
    for (const uint32_t slot : holders.subspan(0, most_workers)) {
      one.workers.push_back(by_slot_.find(slot)->second);
    }
  }
  return pages;
}

uint32_t WorkerPages::Served(const Worker& worker, uint32_t held, absl::Span<const int32_t> prompt,
                             absl::Span<const uint64_t> pages) const {
  const KvLayerGroups& groups = worker.seen.groups;
  const int tokens = static_cast<int>(prompt.size());
  const KvNeed need = {.computes = worker.target.role == internal::v1::WORKER_ROLE_PREFILL,
                       .handed_off = tokens};
  const int block = static_cast<int>(worker.seen.block_size);
  int end = std::min(static_cast<int>(held), tokens - 1);
  for (int group = 0; group < groups.count() && end > 0;) {
    end -= end % block;
    const int window = groups.window(group);
    const int first = window == 0 ? end : groups.FirstNeeded(group, need, end);
    const int missing = FirstMissing(worker, window, first - first % block, end, pages);
    // A shorter prefix reads other tokens in the groups before this one.
    group = missing < end ? 0 : group + 1;
    end = missing;
  }
  return static_cast<uint32_t>(std::max(end, 0));
}

int WorkerPages::FirstMissing(const Worker& worker, int window, int begin, int end,
                              absl::Span<const uint64_t> pages) const {
  for (int token = begin; token < end; token += kKvPageTokens) {
    const uint64_t page = pages[static_cast<size_t>(token / kKvPageTokens)];
    if (!index_.Holds(worker.slot, PrefixWindowPage(page, window))) return token;
  }
  return end;
}

}  // namespace baton
