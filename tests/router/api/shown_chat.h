// Chats and errors as short texts, for tests of the requests of APIs.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "baton/v1/generation.pb.h"
#include "common/rpc/status.h"

namespace baton {

// Each message as "role: content", with " (reasoning)", " id=name(arguments)" of calls and " <id>"
// of a result.
inline std::vector<std::string> MessagesOf(const v1::GenerateRequest& request) {
  std::vector<std::string> result;
  for (const v1::ChatMessage& message : request.chat().messages()) {
    std::string& shown = result.emplace_back(absl::StrCat(message.role(), ": ", message.content()));
    if (!message.reasoning_content().empty()) {
      absl::StrAppend(&shown, " (", message.reasoning_content(), ")");
    }
    for (const v1::ToolCall& call : message.tool_calls()) {
      absl::StrAppend(&shown, " ", call.id(), "=", call.name(), "(", call.arguments(), ")");
    }
    if (!message.tool_call_id().empty()) absl::StrAppend(&shown, " <", message.tool_call_id(), ">");
  }
  return result;
}

// The field that the error names.
inline std::string FieldOf(const absl::Status& status) {
  const std::vector<FieldViolation> violations = FieldViolations(status);
  return violations.empty() ? absl::StrCat("no field: ", status.ToString())
                            : violations.front().field;
}

}  // namespace baton
