// Statuses by which a worker reports that it takes no work now, or that a push has failed.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "common/rpc/status.h"

namespace baton {

// UNAVAILABLE with reason DRAINING, for a worker that is being shut down. `stage` is one of
// kStage... Another worker may be tried at once, this one after 100 ms (RetryInfo).
absl::Status DrainingStatus(const std::string& worker, const char* stage);
// RESOURCE_EXHAUSTED with reason WORKER_FULL, for a worker that does as much as it may do at once.
// `what` says of what there is too much. Otherwise as DrainingStatus.
absl::Status WorkerFullStatus(const std::string& what, const std::string& worker,
                              const char* stage);
// What an engine says to a sequence that is submitted: RESOURCE_EXHAUSTED becomes WorkerFullStatus,
// all else stays.
absl::Status RefusedByEngine(const absl::Status& submitted, const std::string& worker,
                             const char* stage);
// Whether a worker says by `status` that it takes no work now. It lives, and so does the connection
// to it.
bool TakesNoWork(const absl::Status& status);

// Why a push failed: the key in the ErrorInfo of KV_TRANSFER_FAILED, and its values.
inline constexpr char kPushFault[] = "fault";
// The prefill worker may not send KV there in plain text.
inline constexpr char kPushUnprotected[] = "unprotected";
inline constexpr char kPushUnreachable[] = "unreachable";  // no connection was made
inline constexpr char kPushLargePackets[] =
    "large_packets";                               // small messages passed, large ones not
inline constexpr char kPushSilent[] = "silent";    // no answer came in time
inline constexpr char kPushRefused[] = "refused";  // the decode worker refused it
inline constexpr char kPushBroke[] = "broke";      // the connection broke
inline constexpr char kPushOther[] = "other";

// `status` with one of the faults above in its ErrorInfo.
absl::Status WithPushFault(absl::Status status, const char* fault);
// The fault of a failed push; kPushOther if `status` names none of the above.
std::string PushFaultOf(const absl::Status& status);

// The end of a call whose push ended with `cause`, in stage transfer. It keeps what a decode worker
// says that takes no work. FAILED_PRECONDITION becomes MODEL_MISMATCH; all else is UNAVAILABLE with
// reason KV_TRANSFER_FAILED and the push's fault, which speaks against the link between the two
// workers.
absl::Status TransferFailed(const absl::Status& cause, const std::string& worker,
                            std::vector<std::pair<std::string, std::string>> metadata = {});

}  // namespace baton
