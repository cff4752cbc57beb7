// A router's metrics of requests.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/net/metrics.h"

namespace baton {

// Thread-safe. Borrows the Metrics.
class RequestMetrics {
 public:
  // Read at each scrape; must not block.
  struct Gauges {
    std::function<double()> running;  // given to workers and not ended
    std::function<double()> waiting;  // in the router's queue
  };
  RequestMetrics(Metrics& metrics, Gauges gauges);

  // How one request ended. finish_reason: stop, length, abort; empty with an error.
  void Finished(absl::StatusCode code, const std::string& finish_reason, absl::Duration total,
                uint64_t prompt_tokens, uint64_t generated_tokens);
  void PromptTokens(uint64_t computed, uint64_t cached);
  void FirstToken(absl::Duration since_received);
  void NextToken(absl::Duration since_last_token);
  void PerOutputToken(absl::Duration mean);  // the mean over one request's tokens after its first
  void Queued(absl::Duration in_router, absl::Duration at_prefill, absl::Duration at_decode);
  void Computed(absl::Duration prefill, absl::Duration decode);
  // An attempt follows one that broke at `leg`: prefill or decode.
  void Retried(const std::string& leg);
  void Disconnected();

 private:
  Counter& Requests(absl::StatusCode code, const std::string& finish_reason);

  Metrics& metrics_;
  absl::Mutex mutex_;
  std::map<std::pair<int, std::string>, Counter> requests_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Counter> retries_ ABSL_GUARDED_BY(mutex_);
  Counter prompt_computed_;
  Counter prompt_cached_;
  Counter generated_;
  Counter disconnects_;
  Histogram duration_;
  Histogram first_token_;
  Histogram inter_token_;
  Histogram per_output_token_;
  Histogram queue_router_;
  Histogram queue_prefill_;
  Histogram queue_decode_;
  Histogram prefill_;
  Histogram decode_;
  Histogram prompt_tokens_;
  Histogram generated_tokens_;
};

}  // namespace baton
