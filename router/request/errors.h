// How a request's failures are told to its client: code, stage, worker, reason, and when to come
// again.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace baton {

// A client that is told UNAVAILABLE or RESOURCE_EXHAUSTED may try again after this.
inline constexpr absl::Duration kRetryDelay = absl::Seconds(1);
// Where the router predicts the wait, it tells that instead, within these bounds.
inline constexpr absl::Duration kMinRetryDelay = absl::Milliseconds(100);
inline constexpr absl::Duration kMaxRetryDelay = absl::Seconds(30);

// The reason of ErrorInfo if a worker, or what answers in its place, broke the protocol.
inline constexpr char kReasonProtocolError[] = "PROTOCOL_ERROR";
// The reason of ErrorInfo if a worker took an attempt and then gave no sign of life in its call.
inline constexpr char kReasonAttemptSilent[] = "ATTEMPT_SILENT";

// The workers of a hand-off, as clients know them.
struct LinkEnds {
  std::string prefill;
  std::string decode;
};

// An attempt broke. What the worker says about the request itself keeps its code, if it says so by
// an ErrorInfo of Baton's; without one it is INTERNAL, reason PROTOCOL_ERROR: gRPC made it up, or it
// blames what the router has checked. Death, refusal and silence are UNAVAILABLE. `stage`, one of
// kStage..., and `default_reason` stand where the cause names none. Of the worker's own text at
// most 400 bytes are taken over, escaped as LogSafe does, and no delay longer than kMaxRetryDelay.
// If the hand-off on `link` failed (KV_TRANSFER_FAILED), message and ErrorInfo name both its ends,
// and the ErrorInfo has the push's fault (PushFaultOf).
absl::Status AttemptBroken(const char* stage, const std::string& worker, const char* default_reason,
                           const absl::Status& cause,
                           const std::optional<LinkEnds>& link = std::nullopt);
// The end of a call that is not listened to any longer, since its worker broke the protocol; `what`
// says how. INTERNAL, reason PROTOCOL_ERROR.
absl::Status NotBelieved(const std::string& what);
// The end of a call in which no message came for `silence`: UNAVAILABLE, reason ATTEMPT_SILENT. It
// is the worker's fault, but not its death: the worker lives, so the request has not killed it.
absl::Status AttemptSilent(absl::Duration silence);
// INTERNAL: a worker broke the protocol; `what` says how.
absl::Status ProtocolBroken(const char* stage, const std::string& worker, const std::string& what);
// UNAVAILABLE with RetryInfo.
absl::Status NoReadyWorker(const std::string& why);
// RESOURCE_EXHAUSTED with RetryInfo and QuotaFailure. `wait`: the predicted wait; zero: unknown.
absl::Status QueueFull(const std::string& what, absl::Duration wait = absl::ZeroDuration());
// The same where so many wait for a thread that tokenises.
absl::Status TokenizersBusy();
// RESOURCE_EXHAUSTED with RetryInfo, reason SHORT_OF_MEMORY.
absl::Status ShortOfMemory(const std::string& why = "the router is short of memory");
// RESOURCE_EXHAUSTED with RetryInfo: all workers are busy for longer than the request may wait.
absl::Status NoWorkerInTime(const std::string& why, absl::Duration wait);
// The duration cut to milliseconds, such as "1.234s".
std::string InMilliseconds(absl::Duration duration);
absl::Status RouterDraining();
// DATA_LOSS: tokens that the client has may be wrong, since they rest on KV that proved to be.
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

// `status` without what a worker, or the connection to it, said of its own failure, for that may
// name hosts. UNAVAILABLE and INTERNAL from a worker keep their details and say where to read on.
absl::Status WithoutWorkersWords(const absl::Status& status);

}  // namespace baton
