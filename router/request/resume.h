// Decides what follows an attempt that ended early: the next attempt, or the end of the request.
// Pure functions; the history of the attempts is a value.
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

// Whether a decode worker reports that the pushed KV is not trustworthy.
bool IsDistrust(const absl::Status& status);

// The early end of an attempt: by a worker's death, a broken transfer, a refusal or a drain.
struct Breakage {
  absl::Status failure;  // the client's error if no attempt follows
  // The place at which a worker died that opened or computed the request; nullopt if no worker died
  // or the request only waited there. NextNeeds fills in the output index, which differs by choice.
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

// The results of the past attempts at some choices, for the next one.
struct PastAttempts {
  AttemptHistory history;
  LinkTries links{};
  absl::Status last_failure{};  // end of the last attempt; OK before the first break
  absl::Status why_it_waits{};  // end of the last attempt that a worker had accepted
};

// Returns the needs of the attempt after `broken`, or the error that ends the request: a worker's
// error about the request itself, a failure that has lasted for too long, or POISON_REQUEST.
// `output_tokens` is the number of tokens of the first choice of `broken`. Adds the break to
// `past`.
absl::StatusOr<WorkerNeeds> NextNeeds(Breakage breakage, const Attempt& broken,
                                      size_t output_tokens, absl::Time now, PastAttempts& past);

}  // namespace baton
