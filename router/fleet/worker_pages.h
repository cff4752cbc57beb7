// Finds the workers that hold the beginning of a prompt, by the prefix pages that they announce.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

#include "baton/internal/v1/worker.pb.h"
#include "router/fleet/worker.h"
#include "router/placement/prefix_index.h"
#include "router/placement/prefix_reuse.h"
#include "router/placement/ready_workers.h"

namespace baton {

// Borrows each worker from Add until Remove. On the loop's thread only.
class WorkerPages {
 public:
  // Gives the worker its slot. REQUIRES: once for each worker.
  void Add(Worker& worker);
  // REQUIRES: the worker is not listed.
  void Remove(const Worker& worker);

  // False after a gap in the messages: the worker's pages are unknown until a full list comes.
  bool Apply(const Worker& worker, const internal::v1::PrefixDelta& delta);
  void Forget(const Worker& worker) { index_.Forget(worker.slot); }
  // Pages of the worker that are known.
  size_t pages(const Worker& worker) const { return index_.pages(worker.slot); }

  // Prompts are looked up under the prefix root of each worker that is listed. REQUIRES: the root
  // does not change while the worker is listed.
  void List(const Worker& worker) { ++roots_[worker.prefix_root]; }
  void Unlist(const Worker& worker);

  // The workers that hold the first page of the prompt, and how much of it serves them: where layers
  // have windows, as much as they hold of what is still read there.
  std::vector<ReadyWorkers::Held> Find(absl::Span<const int32_t> prompt,
                                       const std::string& salt) const;

  // A request was placed on the worker, which holds the first `tokens` of the prompt.
  void Reused(const Worker& worker, absl::Span<const int32_t> prompt, const std::string& salt,
              uint32_t tokens) {
    reuse_.Count(worker.prefix_root, prompt.subspan(0, tokens), salt);
  }
  struct ReusedPage {
    PrefixReuse::Page page;
    size_t holders = 0;                  // workers that hold it now
    std::vector<const Worker*> workers;  // the first `most_workers` of them
  };
  // As PrefixReuse::MostReused.
  std::vector<ReusedPage> MostReused(size_t most, size_t most_workers) const;

 private:
  // How many of the prompt's first `held` tokens serve a worker some of whose layers have windows.
  // `pages`: the names of these tokens' pages in the layers without one.
  uint32_t Served(const Worker& worker, uint32_t held, absl::Span<const int32_t> prompt,
                  absl::Span<const uint64_t> pages) const;
  // The first token in [begin, end) whose page the worker does not hold in the layers of `window`;
  // `end` where it holds all.
  int FirstMissing(const Worker& worker, int window, int begin, int end,
                   absl::Span<const uint64_t> pages) const;

  PrefixIndex index_;
  PrefixReuse reuse_;
  absl::flat_hash_map<uint32_t, const Worker*> by_slot_;
  std::map<Hash128, int> roots_;  // how many listed workers have each root
  uint32_t next_slot_ = 1;
};

}  // namespace baton
