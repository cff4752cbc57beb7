// Errors on the wire: absl::Status inside, grpc::Status with google.rpc details outside, converted
// here and nowhere else.
//
// The details travel as payloads of the absl::Status, so they survive every layer between the place
// that knows them and the wire, and are there again in the client's status. All functions are
// thread-safe and keep code, message and other details.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpcpp/support/status.h"

namespace baton {

// Conversions between Abseil's and gRPC's status, with the details as google.rpc messages.
// ToGrpcStatus cuts the message to what fits into a trailer and leaves out details that do not fit,
// the largest first.
grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

// One entry of BadRequest.
struct FieldViolation {
  std::string field;        // path from the request down, such as "sampling_params.top_p"
  std::string description;  // such as "must be in (0, 1], is 2"
  friend bool operator==(const FieldViolation&, const FieldViolation&) = default;
};
absl::Status InvalidField(absl::string_view field, absl::string_view description);
// INVALID_ARGUMENT with the first 16 of the violations; OK if there are none.
absl::Status InvalidFields(std::vector<FieldViolation> violations);
// The violations that `status` names.
std::vector<FieldViolation> FieldViolations(const absl::Status& status);

// Adds or reads RetryInfo, which is sent with RESOURCE_EXHAUSTED (queue full) and UNAVAILABLE (no
// ready worker, draining).
absl::Status WithRetryInfo(absl::Status status, absl::Duration delay);
std::optional<absl::Duration> RetryDelay(const absl::Status& status);

// The reasons of ErrorInfo in the domain "baton".
inline constexpr char kReasonContextLengthExceeded[] = "CONTEXT_LENGTH_EXCEEDED";
inline constexpr char kReasonKvTransferFailed[] = "KV_TRANSFER_FAILED";
inline constexpr char kReasonKvWrong[] = "KV_WRONG";
inline constexpr char kReasonModelMismatch[] = "MODEL_MISMATCH";
inline constexpr char kReasonPoisonRequest[] = "POISON_REQUEST";
inline constexpr char kReasonPusherQuarantined[] = "PUSHER_QUARANTINED";
inline constexpr char kReasonDraining[] = "DRAINING";
inline constexpr char kReasonNoReadyWorker[] = "NO_READY_WORKER";
inline constexpr char kReasonQueueFull[] = "QUEUE_FULL";
inline constexpr char kReasonQueueTime[] = "QUEUE_TIME_EXCEEDED";
inline constexpr char kReasonOutOfKvBlocks[] = "OUT_OF_KV_BLOCKS";
inline constexpr char kReasonSilentStream[] = "SILENT_STREAM";
inline constexpr char kReasonSuperseded[] = "SUPERSEDED";
inline constexpr char kReasonWorkerFull[] = "WORKER_FULL";
inline constexpr char kReasonWorkerLost[] = "WORKER_LOST";

// The stages of ErrorInfo: where a request has failed.
inline constexpr char kStageQueue[] = "queue";
inline constexpr char kStagePrefill[] = "prefill";
inline constexpr char kStageTransfer[] = "transfer";
inline constexpr char kStageDecode[] = "decode";

// The fields of ErrorInfo. An empty stage or worker is left out.
struct ErrorInfo {
  std::string reason;  // UPPER_SNAKE_CASE
  std::string stage{};
  std::string worker{};
  std::vector<std::pair<std::string, std::string>> metadata{};  // keys other than stage and worker
};
absl::Status WithErrorInfo(absl::Status status, const ErrorInfo& info);
std::optional<ErrorInfo> GetErrorInfo(const absl::Status& status);
// The reason in the ErrorInfo of `status`; empty without ErrorInfo.
std::string ErrorReason(const absl::Status& status);

// Adds a QuotaFailure, ResourceInfo or PreconditionFailure with one entry.
absl::Status WithQuotaFailure(absl::Status status, absl::string_view subject,
                              absl::string_view description);
absl::Status WithResourceInfo(absl::Status status, absl::string_view type, absl::string_view name,
                              absl::string_view description);
absl::Status WithPreconditionFailure(absl::Status status, absl::string_view type,
                                     absl::string_view subject, absl::string_view description);

}  // namespace baton
