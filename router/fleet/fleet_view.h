// What every thread of the router may know about its workers: a summary that the registry
// publishes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "router/placement/placement.h"

namespace baton {

struct FleetSummary {
  uint32_t ready_prefill = 0;
  uint32_t ready_decode = 0;
  // Every worker that is known by address; false while none is. Addresses of a family that does not
  // answer do not count beside the same name's others (worker_names.h), nor do spare addresses.
  bool all_ready = false;
  // A ready prefill and a ready decode worker serve the same model, and such a pair can hand off.
  bool has_same_model = false;
  bool has_pair = false;
  // How many different models the ready workers serve: several only with --allow-mixed-revisions,
  // or while a flag of theirs differs that changes what they compute.
  uint32_t ready_identities = 0;
  uint32_t max_model_len = 0;  // the smallest of the ready workers; 0: none is ready
  // Tokens of prompt and output that some ready pair of workers takes, and that some ready decode
  // worker takes alone; 0: none is ready.
  uint32_t longest_of_pairs = 0;
  uint32_t longest_of_decode = 0;
  // The KV types of the ready decode workers in alphabetical order: "f16", or "f16, int8".
  std::string kv_cache_dtype;
  uint32_t block_size = 0;   // the fewest tokens that a block of theirs has
  std::string weights_type;  // the types of most of their weights, as kv_cache_dtype
  std::string problem;       // why known workers are not used; empty: nothing is wrong

  // A request could be served.
  bool CanServe(Disaggregation disaggregation) const {
    return disaggregation == Disaggregation::kAlways ? has_pair : ready_decode > 0;
  }
  // The longest request, prompt and output, that could be served; 0: there is no worker. A
  // longer one never can be, whatever it waits for, unless other workers come.
  uint32_t LongestRequest(Disaggregation disaggregation) const {
    return disaggregation == Disaggregation::kAlways
               ? longest_of_pairs
               : std::max(longest_of_pairs, longest_of_decode);
  }
};

// Thread-safe.
class FleetView {
 public:
  void Publish(FleetSummary summary) {
    absl::MutexLock lock(&mutex_);
    summary_ = std::move(summary);
  }
  FleetSummary Get() const {
    absl::MutexLock lock(&mutex_);
    return summary_;
  }

 private:
  mutable absl::Mutex mutex_;
  FleetSummary summary_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
