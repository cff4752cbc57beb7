// Writes errors in the form of each API.
#pragma once

#include <string>

#include "absl/status/status.h"

#include "router/api/api_error.h"
#include "router/http/message.h"
#include "router/web/routes.h"

namespace baton {

// Stands in every answer.
inline constexpr char kRequestIdHeader[] = "x-request-id";
// Names what the router left out of the request, such as hosted tools.
inline constexpr char kWarningHeader[] = "x-baton-warning";

// `status` with the API's names of fields.
ApiError ErrorOf(Api api, const absl::Status& status);
// The whole answer, in the API's envelope.
HttpResponse Refusal(Api api, const ApiError& error, const std::string& request_id);
// Records in the access log why the request failed.
void NoteFailure(const HttpRequest& request, const absl::Status& status);

}  // namespace baton
