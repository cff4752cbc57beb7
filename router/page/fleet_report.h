// The fleet as people see it: plain values that the router's loop publishes four times a second.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "router/planner/advice.h"

namespace baton {

// used + cached + free = total.
struct BlockCounts {
  uint32_t total = 0;
  uint32_t used = 0;    // or reserved
  uint32_t cached = 0;  // held for the prefix in them alone
  uint32_t free = 0;
};

// Over the last 5 s, by the second.
struct FleetRates {
  double output_tokens = 0;
  double prompt_tokens = 0;  // computed
  double hand_offs = 0;
  double hand_off_bytes = 0;
  std::optional<absl::Duration> exposed_transfer{};  // mean of the hand-offs; none: there were none
};

struct WorkerReport {
  std::string name{};  // its own; its address until it has introduced itself
  std::string role{};  // prefill or decode
  std::string address{};
  std::string state{};    // as docs/page.md lists them
  std::string problem{};  // why it is not used; empty: it is
  bool known = false;     // it has introduced itself; else what follows is not known
  uint32_t running = 0;
  uint32_t waiting = 0;
  uint32_t in_flight = 0;  // sequences that this router gave it
  BlockCounts blocks{};
  FleetRates rates{};
  std::optional<absl::Duration> silent{};  // time since its last message
  std::string version{};
  std::string weights{};
  std::string identity{};  // its model: workers with equal ones can share a request
  std::string numerics{};  // numerics of its KV (common/base/numerics.h)
  std::string kv_dtype{};
  uint32_t block_size = 0;                               // tokens
  uint64_t bytes_per_token = 0;                          // KV bytes of a token in its cache
  std::map<std::string, uint64_t> bytes_per_token_of{};  // the same for other KV types
  size_t prefix_pages = 0;                               // pages known to placement
};

// Hand-offs that fail between two workers for one reason.
struct LinkReport {
  std::string prefill{};  // names of workers
  std::string decode{};
  std::string prefill_address{};
  std::string decode_address{};  // where the decode worker takes pushes
  std::string reason{};          // one of kPush... (worker_status.h)
  std::string problem{};         // error of the last failed hand-off
  uint64_t failures = 0;         // since one succeeded
  absl::Duration since_last{};
};

// A page of prompts that placement has found held.
struct PrefixPageReport {
  uint64_t page = 0;
  std::optional<uint64_t> parent{};    // the page before it in the prompt
  uint32_t depth_tokens = 0;           // tokens up to its end
  uint64_t reused = 0;                 // requests that were placed where it is held
  size_t holders = 0;                  // workers that hold it
  std::vector<std::string> workers{};  // names of some of them
};

struct FleetReport {
  FleetRates rates{};
  Advice advice{};
  std::vector<WorkerReport> workers{};
  std::vector<LinkReport> links{};
  std::vector<PrefixPageReport> prefixes{};
};

// Thread-safe.
class FleetBoard {
 public:
  void Publish(std::shared_ptr<const FleetReport> report) {
    absl::MutexLock lock(&mutex_);
    report_ = std::move(report);
  }
  // Never null.
  std::shared_ptr<const FleetReport> Get() const {
    absl::MutexLock lock(&mutex_);
    return report_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::shared_ptr<const FleetReport> report_ ABSL_GUARDED_BY(mutex_) =
      std::make_shared<FleetReport>();
};

}  // namespace baton
