// Errors for HTTP clients of the APIs.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "router/http/message.h"

namespace baton {

// An error in the terms of OpenAI's API, from which the other APIs' errors are translated.
struct ApiError {
  int status = 500;  // HTTP status code
  // invalid_request_error, authentication_error, permission_error, not_found_error,
  // rate_limit_error, server_error, unavailable_error, not_supported_error
  std::string type;
  std::string code{};   // such as "context_length_exceeded"; empty: null
  std::string param{};  // the field that is wrong, such as "messages[0].content"; empty: null
  std::string message{};
  std::optional<absl::Duration> retry_after{};  // when to come again
  bool param_is_clients = false;                // `param` is written as the client sent the field
};

// Field names of baton.v1.GenerateRequest become those of the JSON APIs: "sampling_params.top_p" is
// "top_p", "chat.messages[0].content" is "messages[0].content".
std::string ParamOfField(absl::string_view field);

// What `status`, an error of the router (router/request/errors.h) or of a translation, is to a
// client: INVALID_ARGUMENT 400, UNAUTHENTICATED 401, PERMISSION_DENIED 403, NOT_FOUND 404,
// RESOURCE_EXHAUSTED 429, UNAVAILABLE 503, DEADLINE_EXCEEDED 504, UNIMPLEMENTED 501, others 500.
ApiError ApiErrorOf(const absl::Status& status);
// An error that no status stands for, such as 405.
ApiError ApiErrorWithStatus(int http_status, absl::string_view message);

// INVALID_ARGUMENT about a field of the body, by the name and the indexes that it has there:
// ApiErrorOf and WithRenamedParam keep them.
absl::Status InvalidParam(absl::string_view param, absl::string_view what);

// {"error": {"message", "type", "param", "code"}}
std::string OpenAiErrorBody(const ApiError& error);
// {"type": "error", "error": {"type", "message"}, "request_id"}
std::string AnthropicErrorBody(const ApiError& error, const std::string& request_id);

// The answer with that body: retry-after in whole seconds, retry-after-ms and x-should-retry if
// the error has a retry delay, www-authenticate with 401.
HttpResponse ErrorResponse(const ApiError& error, std::string body);

}  // namespace baton
