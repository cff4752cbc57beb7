// The network between planned workers: each worker has a link with a fixed bandwidth in each
// direction.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace baton {

// Not thread-safe.
class PlannedNetwork {
 public:
  PlannedNetwork(size_t workers, double bytes_per_s, int layers)
      : bytes_per_ns_(bytes_per_s * 1e-9), layers_(layers), free_ns_(workers), busy_ns_(workers) {}

  // The KV of a chunk goes layer by layer: the first from `first_ns` on, when it is computed, the
  // last one not before `last_ns`. Both workers' networks carry it behind what they have. Returns
  // when all of it is there.
  int64_t Send(uint32_t from, uint32_t to, int64_t bytes, int64_t first_ns, int64_t last_ns) {
    const int64_t wire_ns = std::llround(static_cast<double>(bytes) / bytes_per_ns_);
    const int64_t begin = std::max({first_ns, free_ns_[from], free_ns_[to]});
    for (const uint32_t worker : {from, to}) {
      free_ns_[worker] = begin + wire_ns;
      busy_ns_[worker] += wire_ns;
    }
    return std::max(begin + wire_ns, last_ns + wire_ns / layers_);
  }

  int64_t busy_ns(uint32_t worker) const { return busy_ns_[worker]; }

 private:
  const double bytes_per_ns_;
  const int layers_;
  std::vector<int64_t> free_ns_;  // [workers]: when it has sent, and received, what it has
  std::vector<int64_t> busy_ns_;  // [workers]
};

}  // namespace baton
