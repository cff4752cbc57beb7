// Makes the errors that a request's client receives: code, stage, worker, reason, and when to try
// again.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace baton {

// The RetryInfo of UNAVAILABLE and RESOURCE_EXHAUSTED if the router cannot predict the wait.
inline constexpr absl::Duration kRetryDelay = absl::Seconds(1);
// Bounds of a predicted wait.
inline constexpr absl::Duration kMinRetryDelay = absl::Milliseconds(100);
inline constexpr absl::Duration kMaxRetryDelay = absl::Seconds(30);

// The reason of ErrorInfo if a worker, or another program at its address, broke the protocol.
inline constexpr char kReasonProtocolError[] = "PROTOCOL_ERROR";
// The reason of ErrorInfo if a worker took an attempt and then gave no sign of life in its call.
inline constexpr char kReasonAttemptSilent[] = "ATTEMPT_SILENT";

// The workers of a hand-off, as clients know them.
struct LinkEnds {
  std::string prefill;
  std::string decode;
};

// Returns the client's error for an attempt that broke by `cause`. A fault of the request itself
// keeps the worker's code if the cause has an ErrorInfo of Baton's. Without one it is INTERNAL,
// reason PROTOCOL_ERROR: either gRPC made the status, or the worker objects to a value that the
// router has checked. Death, refusal and silence of a worker are UNAVAILABLE. `stage` (one of
// kStage...) and `default_reason` are used if the cause names none. The error contains at most 400
// bytes of the worker's own text, escaped as LogSafe does, and no delay longer than kMaxRetryDelay.
// If the hand-off on `link` failed (KV_TRANSFER_FAILED), message and ErrorInfo name both its ends,
// and the ErrorInfo has the push's fault (PushFaultOf).
absl::Status AttemptBroken(const char* stage, const std::string& worker, const char* default_reason,
                           const absl::Status& cause,
                           const std::optional<LinkEnds>& link = std::nullopt);
// Returns the status that ends a call whose worker broke the protocol: INTERNAL, reason
// PROTOCOL_ERROR. Later messages of the call are ignored. `what` describes the violation.
absl::Status NotBelieved(const std::string& what);
// Returns the status that ends a call without a message for `silence`: UNAVAILABLE, reason
// ATTEMPT_SILENT. The worker is at fault but alive, so the request does not count as its killer.
absl::Status AttemptSilent(absl::Duration silence);
// INTERNAL: a worker broke the protocol; `what` describes the violation.
absl::Status ProtocolBroken(const char* stage, const std::string& worker, const std::string& what);
// UNAVAILABLE with RetryInfo.
absl::Status NoReadyWorker(const std::string& why);
// RESOURCE_EXHAUSTED with RetryInfo and QuotaFailure. `wait`: the predicted wait; zero: unknown.
absl::Status QueueFull(const std::string& what, absl::Duration wait = absl::ZeroDuration());
// The same error if too many requests wait for a thread that tokenises.
absl::Status TokenizersBusy();
// RESOURCE_EXHAUSTED with RetryInfo, reason SHORT_OF_MEMORY.
absl::Status ShortOfMemory(const std::string& why = "the router is short of memory");
// RESOURCE_EXHAUSTED with RetryInfo: all workers are busy for longer than the request may wait.
absl::Status NoWorkerInTime(const std::string& why, absl::Duration wait);
// Formats the duration, cut to milliseconds, such as "1.234s".
std::string InMilliseconds(absl::Duration duration);
absl::Status RouterDraining();
// DATA_LOSS: tokens that the client already has may be wrong, since their KV was found to be wrong.
absl::Status TokensMayBeWrong();
// INTERNAL: wherever the request runs, its worker dies. `failure` is what broke the last attempt.
absl::Status PoisonRequest(const absl::Status& failure);
// INTERNAL, reason POISON_REQUEST: two workers stood still while they computed the request, and
// have no other request in common. `workers` are their names as clients know them.
absl::Status WorkersStoodStill(const char* stage, const std::array<std::string, 2>& workers);
absl::Status DeadlinePassed(const char* stage);
// DEADLINE_EXCEEDED: no token came and no step of the prompt was computed for `timeout`.
absl::Status NoProgress(const char* stage, absl::Duration timeout);
absl::Status ClientStalled(absl::Duration stall_timeout);

// Returns `status` without the text of a worker, or of the connection to it, about its own failure,
// since that text may name hosts. The message of an UNAVAILABLE or INTERNAL that names a worker is
// replaced by a reference to the router's log; its details stay.
absl::Status WithoutWorkersWords(const absl::Status& status);

}  // namespace baton
