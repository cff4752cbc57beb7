// Counts the demand of clients on this router, request by request.
#pragma once

#include <cstdint>

namespace baton {

// Counts of the requests. All but `waiting_tokens` only grow.
struct DemandCounts {
  uint64_t requests = 0;         // requests that arrived and were tokenised
  uint64_t prompt_tokens = 0;    // their prompt tokens
  uint64_t waiting_tokens = 0;   // prompt tokens of requests that wait for workers
  uint64_t placed_tokens = 0;    // prompt tokens of requests that got workers
  uint64_t uncached_tokens = 0;  // placed tokens that prefill workers have to compute
  uint64_t gave_up = 0;          // requests that waited in vain: they were refused in the end
  uint64_t ended = 0;            // requests that ended after they had workers
  uint64_t output_tokens = 0;    // output tokens of the ended requests
};

// Counts each request once, however many attempts it takes. On the loop's thread only.
class Demand {
 public:
  // The counts in which one request is included.
  struct Place {
    bool waits = false;
    uint32_t prompt_tokens = 0;
  };

  Place Arrived(uint32_t prompt_tokens) {
    ++counts_.requests;
    counts_.prompt_tokens += prompt_tokens;
    counts_.waiting_tokens += prompt_tokens;
    return {.waits = true, .prompt_tokens = prompt_tokens};
  }
  // An attempt got workers. `uncached_tokens`: of the prompt, what prefill workers have to compute,
  // or would have if there were enough of them.
  void GotWorkers(Place& place, uint32_t uncached_tokens) {
    if (!place.waits) return;
    place.waits = false;
    counts_.waiting_tokens -= place.prompt_tokens;
    counts_.placed_tokens += place.prompt_tokens;
    counts_.uncached_tokens += uncached_tokens;
  }
  // The request has ended with this many output tokens in all its choices; or it was refused
  // because of the load.
  void Ended(Place& place, uint64_t output_tokens, bool refused) {
    if (place.waits) {
      place.waits = false;
      counts_.waiting_tokens -= place.prompt_tokens;
      counts_.gave_up += refused ? 1 : 0;
    } else {
      ++counts_.ended;
      counts_.output_tokens += output_tokens;
    }
  }

  const DemandCounts& counts() const { return counts_; }

 private:
  DemandCounts counts_;
};

}  // namespace baton
