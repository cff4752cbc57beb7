#include "router/request/errors.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/base/log.h"
#include "common/protocol/worker_status.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

// The ends of a link in the ErrorInfo of a hand-off that failed there.
constexpr char kPrefillWorker[] = "prefill_worker";
constexpr char kDecodeWorker[] = "decode_worker";
// Most bytes of a worker's own text in an error.
constexpr size_t kMostWorkerBytes = 400;
// The beginning of a call is one small packet, and its message may be several large ones.
constexpr char kSmallOnes[] =
    "; the call has arrived, so if this repeats, small packets pass and large ones do not: compare "
    "the MTU of both machines and of the path between";

absl::StatusCode CodeForClient(absl::StatusCode cause) {
  switch (cause) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kDeadlineExceeded:
      return cause;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

// Whether a client takes the code for its own fault, or for a limit that it meets.
bool SpeaksOfTheRequest(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
      return true;
    default:
      return false;
  }
}

// The ErrorInfo of a worker as far as it has Baton's words; nothing if its reason is none.
std::optional<ErrorInfo> InfoOf(const absl::Status& cause) {
  constexpr size_t kMaxReasonBytes = 63;  // as google.rpc.ErrorInfo has it
  std::optional<ErrorInfo> info = GetErrorInfo(cause);
  if (!info.has_value()) return std::nullopt;
  const std::string& reason = info->reason;
  const bool is_reason = !reason.empty() && reason.size() <= kMaxReasonBytes &&
                         std::all_of(reason.begin(), reason.end(), [](char c) {
                           return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
                         });
  if (!is_reason) return std::nullopt;
  const char* const stages[] = {kStageQueue, kStagePrefill, kStageTransfer, kStageDecode};
  if (std::find(std::begin(stages), std::end(stages), info->stage) == std::end(stages)) {
    info->stage.clear();
  }
  return info;
}

absl::Duration RetryAfter(absl::Duration wait) {
  if (wait <= absl::ZeroDuration()) return kRetryDelay;
  return std::clamp(wait, kMinRetryDelay, kMaxRetryDelay);
}

}  // namespace

absl::Status AttemptBroken(const char* stage, const std::string& worker, const char* default_reason,
                           const absl::Status& cause, const std::optional<LinkEnds>& link) {
  // A message that the worker did not receive in time says nothing about the request.
  const bool silent = ErrorReason(cause) == kReasonSilentStream;
  const std::optional<ErrorInfo> info = InfoOf(cause);
  const bool unfounded = SpeaksOfTheRequest(cause.code()) && !info.has_value();
  absl::StatusCode code = silent ? absl::StatusCode::kUnavailable : CodeForClient(cause.code());
  if (unfounded) code = absl::StatusCode::kInternal;
  std::string why = cause.ok() ? "it ended the call before its work was done"
                               : LogSafe(cause.message(), kMostWorkerBytes);
  if (silent) absl::StrAppend(&why, kSmallOnes);
  const ErrorInfo told =
      info.value_or(ErrorInfo{.reason = unfounded ? kReasonProtocolError : default_reason});
  const std::string where = told.stage.empty() ? stage : told.stage;
  ErrorInfo given{.reason = told.reason, .stage = where, .worker = worker};
  std::string what = absl::StrCat(where, " on worker '", worker, "'");
  if (link.has_value() && told.reason == kReasonKvTransferFailed) {
    what =
        absl::StrCat("hand-off from worker '", link->prefill, "' to worker '", link->decode, "'");
    given.metadata = {{kPrefillWorker, link->prefill},
                      {kDecodeWorker, link->decode},
                      {kPushFault, PushFaultOf(cause)}};
  }
  absl::Status status =
      WithErrorInfo(absl::Status(code, absl::StrCat(what, " failed: ", why)), given);
  if (code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kResourceExhausted) {
    const absl::Duration delay = RetryDelay(cause).value_or(kRetryDelay);
    status =
        WithRetryInfo(std::move(status), std::clamp(delay, absl::ZeroDuration(), kMaxRetryDelay));
  }
  return status;
}

absl::Status NotBelieved(const std::string& what) {
  return WithErrorInfo(absl::InternalError(absl::StrCat("it broke the protocol: ", what)),
                       {.reason = kReasonProtocolError});
}

absl::Status AttemptSilent(absl::Duration silence) {
  // tests/planted_bugs: router_takes_silence_for_a_death
  return WithErrorInfo(absl::UnavailableError(absl::StrCat("it gave no sign of life for ",
                                                           absl::FormatDuration(silence))),
                       {.reason = kReasonAttemptSilent});
}

absl::Status ProtocolBroken(const char* stage, const std::string& worker, const std::string& what) {
  return WithErrorInfo(
      absl::InternalError(absl::StrCat("worker '", worker, "' broke the protocol: ", what)),
      {.reason = kReasonProtocolError, .stage = stage, .worker = worker, .metadata = {}});
}

absl::Status NoReadyWorker(const std::string& why) {
  return WithRetryInfo(
      WithErrorInfo(
          absl::UnavailableError(why),
          {.reason = kReasonNoReadyWorker, .stage = kStageQueue, .worker = "", .metadata = {}}),
      kRetryDelay);
}

absl::Status QueueFull(const std::string& what, absl::Duration wait) {
  absl::Status status = absl::ResourceExhaustedError(
      absl::StrCat("the router's queue is full (", what, "); try again later"));
  status = WithErrorInfo(
      std::move(status),
      {.reason = kReasonQueueFull, .stage = kStageQueue, .worker = "", .metadata = {}});
  return WithQuotaFailure(WithRetryInfo(std::move(status), RetryAfter(wait)), "router queue", what);
}

absl::Status TokenizersBusy() { return QueueFull("the tokenizer's threads are busy"); }

absl::Status ShortOfMemory(const std::string& why) {
  return WithRetryInfo(
      WithErrorInfo(absl::ResourceExhaustedError(absl::StrCat(why, "; try again later")),
                    {.reason = "SHORT_OF_MEMORY", .stage = kStageQueue}),
      kRetryDelay);
}

absl::Status NoWorkerInTime(const std::string& why, absl::Duration wait) {
  absl::Status status = absl::ResourceExhaustedError(
      absl::StrCat("the request would get no worker in time: ", why, "; try again later"));
  status = WithErrorInfo(
      std::move(status),
      {.reason = kReasonQueueTime, .stage = kStageQueue, .worker = "", .metadata = {}});
  return WithRetryInfo(std::move(status), RetryAfter(wait));
}

std::string InMilliseconds(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(1)));
}

absl::Status RouterDraining() {
  return WithRetryInfo(
      WithErrorInfo(absl::UnavailableError("the router is shutting down; try another one"),
                    {.reason = kReasonDraining, .stage = "", .worker = "", .metadata = {}}),
      kRetryDelay);
}

absl::Status TokensMayBeWrong() {
  return WithErrorInfo(
      absl::DataLossError(
          "tokens of this answer may be wrong, because they were computed from a KV cache that "
          "proved to be wrong; discard the answer and send the request again"),
      {.reason = kReasonKvWrong, .stage = kStageDecode});
}

absl::Status PoisonRequest(const absl::Status& failure) {
  ErrorInfo info = GetErrorInfo(failure).value_or(ErrorInfo{});
  info.reason = kReasonPoisonRequest;
  return WithErrorInfo(
      absl::InternalError(absl::StrCat("every worker that computed the request died at the same "
                                       "place of it; it is not tried again: ",
                                       failure.message())),
      info);
}

// ErrorInfo.worker stays empty: the message has nothing that WithoutWorkersWords would take out.
absl::Status WorkersStoodStill(const char* stage, const std::array<std::string, 2>& workers) {
  return WithErrorInfo(
      absl::InternalError(absl::StrCat(
          "workers '", workers[0], "' and '", workers[1],
          "' both stood still while they computed this request, the only one that ran on both; it "
          "is not tried again: send it with a simpler grammar or schema, if it has one")),
      {.reason = kReasonPoisonRequest, .stage = stage, .worker = "", .metadata = {}});
}

absl::Status DeadlinePassed(const char* stage) {
  return WithErrorInfo(
      absl::DeadlineExceededError(absl::StrCat("the deadline passed in stage ", stage)),
      {.reason = "DEADLINE_EXCEEDED", .stage = stage, .worker = "", .metadata = {}});
}

absl::Status NoProgress(const char* stage, absl::Duration timeout) {
  return WithErrorInfo(
      absl::DeadlineExceededError(absl::StrCat("no token came and no step of the prompt ended for ",
                                               absl::FormatDuration(timeout), " in stage ", stage)),
      {.reason = "NO_PROGRESS", .stage = stage, .worker = "", .metadata = {}});
}

absl::Status ClientStalled(absl::Duration stall_timeout) {
  return WithErrorInfo(
      absl::ResourceExhaustedError(absl::StrCat("the client did not read its stream for ",
                                                absl::FormatDuration(stall_timeout))),
      {.reason = "CLIENT_STALLED", .stage = kStageDecode, .worker = "", .metadata = {}});
}

absl::Status WithoutWorkersWords(const absl::Status& status) {
  const std::optional<ErrorInfo> info = GetErrorInfo(status);
  const bool own_failure = absl::IsUnavailable(status) || absl::IsInternal(status);
  if (!own_failure || !info.has_value() || info->worker.empty()) return status;
  std::string what = absl::StrCat(info->stage, " on worker '", info->worker, "'");
  const std::map<std::string, std::string> metadata(info->metadata.begin(), info->metadata.end());
  if (const auto decode = metadata.find(kDecodeWorker); decode != metadata.end()) {
    const auto prefill = metadata.find(kPrefillWorker);
    what = absl::StrCat("hand-off from worker '",
                        prefill == metadata.end() ? info->worker : prefill->second, "' to worker '",
                        decode->second, "'");
  }
  absl::Status told(status.code(), absl::StrCat(what, " failed; the router's log tells why"));
  status.ForEachPayload([&told](absl::string_view type, const absl::Cord& payload) {
    told.SetPayload(type, payload);
  });
  return told;
}

}  // namespace baton
