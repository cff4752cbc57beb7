// Requests of /v1/chat/completions.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "router/api/answer_format.h"

namespace baton {

// The body as one request of Baton's, and its answer's form. INVALID_ARGUMENT names the field that
// is wrong; ranges are left to ValidateGenerateRequest. Thread-safe.
absl::StatusOr<ApiRequest> ReadChatRequest(absl::string_view body, const ApiContext& context);

}  // namespace baton
