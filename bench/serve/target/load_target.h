// What a load is put on: a router by gRPC, or any OpenAI server by HTTP.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"

#include "bench/serve/target/load_record.h"

namespace baton {

// Greedy, and to the last token: no end of generation ends it.
struct LoadRequest {
  std::vector<uint32_t> prompt;  // token ids
  uint32_t output_tokens = 1;
};

// Use it on one thread, which does all its work.
class LoadTarget {
 public:
  virtual ~LoadTarget() = default;

  // Begins to send the request, whose news go into `record`: sent_ns at once, all else by Poll.
  // REQUIRES: `record` stays where it is until Poll has returned it.
  virtual void Send(const LoadRequest& request, LoadRecord& record) = 0;
  // Lets something happen, for which it waits until `until` on the steady clock. Returns the
  // records of requests that have ended, which is often none.
  virtual std::vector<LoadRecord*> Poll(absl::Time until) = 0;
  // Ends the request, which Poll returns in its turn. REQUIRES: Poll has not returned it yet.
  virtual void Cancel(LoadRecord& record) = 0;
};

}  // namespace baton
