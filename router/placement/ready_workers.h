// The ready workers, kept so that a request sees a few of them: what it costs does not grow with
// their number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

#include "router/placement/placement.h"

namespace baton {

// Pure; not thread-safe. Borrows the snapshots, which stay where they are while they are in it.
class ReadyWorkers {
 public:
  enum class Role { kPrefill, kDecode };
  // Candidates of each identity and role, beside those that are named; if there are fewer
  // workers, all of them are.
  static constexpr size_t kCandidates = 8;

  // What a worker holds of the request's prompt.
  struct Held {
    uint64_t worker_id = 0;
    uint32_t tokens = 0;
  };
  struct Candidates {
    std::vector<WorkerSnapshot> prefill;
    std::vector<WorkerSnapshot> decode;
  };

  // REQUIRES: no worker of that id is in it; identity and max_model_len do not change.
  void Add(Role role, const WorkerSnapshot& worker);
  void Remove(uint64_t id);
  // After own_prompts, own_alone or takes_requests may have changed. Unknown ids are ignored.
  void Changed(uint64_t id);

  // Candidates for Place, which could serve the request. Of each identity: some that `turn` draws,
  // for round robin those whose turn it is; those that hold most of the prompt; the one that is
  // preferred. If all have enough queued, some of these, so that Place says to wait.
  Candidates Choose(const WorkerNeeds& needs, absl::Span<const Held> held,
                    const PlacementOptions& options, uint64_t turn) const;

  size_t size() const { return entries_.size(); }
  // Whether a worker takes another prompt.
  bool has_room() const;
  // The longest sequence that a pair takes, and that a decode worker takes alone; 0: none is ready.
  uint32_t longest_of_pairs() const;
  uint32_t longest_of_decode() const;

 private:
  // Workers in some order, changed by moving the last one into the place of who leaves.
  using List = std::vector<const WorkerSnapshot*>;
  enum ListName { kReady, kTakes, kWithRoom, kLists };
  struct Side {
    List lists[kLists];
    std::map<uint32_t, int> lengths;  // [max_model_len]: how many
    uint32_t longest() const { return lengths.empty() ? 0 : lengths.rbegin()->first; }
  };
  struct Group {
    Side sides[2];  // [role]
  };
  struct Entry {
    const WorkerSnapshot* worker = nullptr;
    Role role = Role::kPrefill;
    Side* side = nullptr;
    size_t places[kLists] = {};  // kNowhere: not in that list
  };

  void PutInto(ListName name, Entry& entry, bool in);
  void Draw(const Side& side, ListName name, const WorkerNeeds& needs,
            const PlacementOptions& options, uint64_t turn,
            std::vector<WorkerSnapshot>& candidates) const;
  void AddNamed(uint64_t id, uint32_t cached_tokens, const WorkerNeeds& needs,
                Candidates& candidates) const;

  std::map<std::string, Group> groups_;           // [identity]
  absl::flat_hash_map<uint64_t, Entry> entries_;  // [id]
};

}  // namespace baton
