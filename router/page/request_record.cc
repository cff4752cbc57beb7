#include "router/page/request_record.h"

#include "absl/strings/str_cat.h"

#include "common/base/log.h"
#include "common/rpc/status.h"

namespace baton {

const char* RequestStageName(RequestStage stage) {
  switch (stage) {
    case RequestStage::kQueued:
      return "queued";
    case RequestStage::kPrefill:
      return "prefill";
    case RequestStage::kTransfer:
      return "transfer";
    case RequestStage::kDecode:
      return "decode";
    case RequestStage::kDone:
      return "done";
    case RequestStage::kFailed:
      return "failed";
    case RequestStage::kCancelled:
      return "cancelled";
  }
  return "";
}

std::string FailureText(const absl::Status& status) {
  const ErrorInfo info = GetErrorInfo(status).value_or(ErrorInfo{});
  return LogSafe(absl::StrCat(absl::StatusCodeToString(status.code()),
                              info.reason.empty() ? "" : " ", info.reason,
                              info.stage.empty() ? "" : " in stage ", info.stage));
}

}  // namespace baton
