// What follows when an attempt ends early: the next attempt, or the end of the request. Pure
// functions; the history of the attempts is a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "router/request/attempt.h"
#include "router/request/attempt_history.h"
#include "router/request/events.h"
#include "router/request/link_tries.h"

namespace baton {

// A decode worker says that it does not believe what the prefill worker pushed.
bool IsDistrust(const absl::Status& status);

// How an attempt ended early: by a worker's death, a broken transfer, a refusal, a drain.
struct Breakage {
  absl::Status failure;  // what the client is told if no attempt follows
  // Where the worker died that opened or computed the request; none: no worker died, or the request
  // waited there. The output index is each choice's own: NextNeeds fills it in.
  std::optional<AttemptHistory::Place> died{};
  std::vector<uint64_t> avoid{};  // ids of the workers that broke it
};

// The Prefill call of `attempt` ended with `cause`.
// `prompt_computed`: its prefill worker had sent all first tokens.
Breakage PrefillBroken(const Attempt& attempt, bool prompt_computed, const absl::Status& cause);
// The Decode call of `attempt` ended with `cause`.
Breakage DecodeBroken(const Attempt& attempt, const absl::Status& cause);

// The commit that `attempt` waits for has not come in time. REQUIRES: Prefilling.
Breakage CommitMissed(const Attempt& attempt, bool prompt_computed);

// What the attempts at some choices leave behind for the next one.
struct PastAttempts {
  AttemptHistory history;
  LinkTries links{};
  absl::Status last_failure{};  // what ended the last attempt; OK before the first break
  absl::Status why_it_waits{};  // what ended the last attempt that a worker had taken
};

// What the attempt after `broken` asks of placement, or the error that ends the request: what a
// worker said about the request itself, a failure that has lasted for too long, or POISON_REQUEST.
// `output_tokens` is how many tokens the first choice of `broken` has. Adds the break to `past`.
absl::StatusOr<WorkerNeeds> NextNeeds(Breakage breakage, const Attempt& broken,
                                      size_t output_tokens, absl::Time now, PastAttempts& past);

}  // namespace baton
