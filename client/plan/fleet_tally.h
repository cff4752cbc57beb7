// Counts the work of a planned fleet while it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "bench/serve/report/load_objective.h"
#include "bench/serve/target/load_record.h"
#include "client/plan/plan_result.h"

namespace baton {

// The memory of one worker.
class KvTally {
 public:
  explicit KvTally(int64_t tokens) : tokens_(tokens) {}

  // From now on its sequences hold `held` tokens of KV.
  void Holds(int64_t held, int64_t now_ns);
  // Shares of the KV cache: in the mean over the time until the last Holds, and the most.
  double mean_used(int64_t span_ns) const;
  double most_used() const { return static_cast<double>(most_) / static_cast<double>(tokens_); }

 private:
  int64_t tokens_;
  int64_t held_ = 0, most_ = 0, since_ns_ = 0;
  double token_ns_ = 0;  // integral of held_
};

// The workers of one role.
class RoleTally {
 public:
  // `rows`: rows of the role, summed over `steps` steps.
  struct Worker {
    int64_t busy_ns = 0, link_busy_ns = 0;
    uint64_t steps = 0, rows = 0, preemptions = 0;
  };
  explicit RoleTally(int64_t span_ns) : span_ns_(span_ns) {}
  void Add(const Worker& worker, const KvTally& kv);
  RoleUse Use() const;

 private:
  double OfTime(int64_t ns) const;

  const int64_t span_ns_;
  RoleUse sums_;
  uint64_t steps_ = 0, rows_ = 0;
};

// When what happened to a request, in nanoseconds since the beginning.
struct RequestTimes {
  int64_t at = 0;        // it came
  int64_t placed = 0;    // it had workers
  int64_t begun = 0;     // its prompt began to be computed
  int64_t computed = 0;  // its prompt's last step was done
  int64_t first = 0;     // its first token came
};

// Counts what happens to the requests of the whole fleet. Not thread-safe.
class FleetTally {
 public:
  // Borrows the objective.
  explicit FleetTally(const LoadObjective& objective) : objective_(objective) {}

  void Came() { ++result_.offered; }
  // From now on `requests` requests wait for workers.
  void Waits(size_t requests, int64_t now_ns);
  void Refused(int64_t now_ns);
  void ComputesPrompt(int cached_tokens) {
    result_.cached_tokens += static_cast<uint64_t>(cached_tokens);
  }
  void PrefilledLocally() { ++result_.local_prefills; }
  void Sends(int64_t bytes) { result_.sent_bytes += static_cast<uint64_t>(bytes); }
  // A token came; `gap_ns` after the one before it, or, of the first, -1.
  void Token(int64_t gap_ns);
  // `messages` are all of the request's.
  void Completed(const RequestTimes& times, int input_tokens, std::vector<TokenMessage> messages);

  // Requests that have ended and are not good.
  uint64_t bad() const { return result_.completed + result_.refused - result_.good; }
  int64_t ended_ns() const { return ended_ns_; }  // when the last request ended
  // The result, but for the roles. Call it once, at the end. `begun_ns`: when the first request
  // came.
  PlanResult Take(int64_t begun_ns);

 private:
  const LoadObjective& objective_;
  PlanResult result_;
  size_t waiting_ = 0;  // requests
  int64_t waiting_since_ns_ = 0, ended_ns_ = 0;
  double waiting_ns_ = 0;  // integral of waiting_
};

}  // namespace baton
