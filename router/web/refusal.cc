#include "router/web/refusal.h"

#include "router/access_log/access_entry.h"
#include "router/anthropic/messages_request.h"
#include "router/responses/responses_request.h"

namespace baton {

ApiError ErrorOf(Api api, const absl::Status& status) {
  ApiError error = ApiErrorOf(status);
  switch (api) {
    case Api::kResponses:
      return InResponsesWords(std::move(error));
    case Api::kAnthropic:
      return InMessagesWords(std::move(error));
    case Api::kOpenAi:
      break;
  }
  return error;
}

HttpResponse Refusal(Api api, const ApiError& error, const std::string& request_id) {
  HttpResponse response =
      ErrorResponse(error, api == Api::kAnthropic ? AnthropicErrorBody(error, request_id)
                                                  : OpenAiErrorBody(error));
  response.headers.push_back({kRequestIdHeader, request_id});
  return response;
}

void NoteFailure(const HttpRequest& request, const absl::Status& status) {
  if (request.access != nullptr) request.access->Failed(status);
}

}  // namespace baton
