#include "router/runner/standstills.h"

#include <algorithm>
#include <iterator>

namespace baton {

std::optional<Standstills::Named> Standstills::StoodStill(const Worker& worker,
                                                          const std::vector<uint64_t>& requests) {
  std::map<uint64_t, std::string> candidates;  // [request]: the other worker's name
  // tests/planted_bugs: common_standstills
  for (const auto& [address, computed] : standstills_) {
    if (address == worker.address) continue;
    std::vector<uint64_t> common;
    std::copy_if(requests.begin(), requests.end(), std::back_inserter(common),
                 [&computed = computed](uint64_t request) { return computed.count(request) > 0; });
    if (common.size() == 1) candidates.emplace(common[0], computed.at(common[0]));
  }
  for (const uint64_t request : requests) standstills_[worker.address][request] = worker.name;
  if (candidates.size() != 1) return std::nullopt;
  return Named{.request = candidates.begin()->first, .other_worker = candidates.begin()->second};
}

void Standstills::Ended(uint64_t request) {
  for (auto next = standstills_.begin(); next != standstills_.end();) {
    const auto entry = next++;
    entry->second.erase(request);
    if (entry->second.empty()) standstills_.erase(entry);
  }
}

}  // namespace baton
