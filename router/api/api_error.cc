#include "router/api/api_error.h"

#include <array>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include <nlohmann/json.hpp>

#include "common/rpc/status.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

struct Kind {
  absl::StatusCode code;
  int status;
  const char* type;
};
constexpr Kind kKinds[] = {
    {absl::StatusCode::kInvalidArgument, 400, "invalid_request_error"},
    {absl::StatusCode::kOutOfRange, 400, "invalid_request_error"},
    {absl::StatusCode::kUnauthenticated, 401, "authentication_error"},
    {absl::StatusCode::kPermissionDenied, 403, "permission_error"},
    {absl::StatusCode::kNotFound, 404, "not_found_error"},
    {absl::StatusCode::kResourceExhausted, 429, "rate_limit_error"},
    {absl::StatusCode::kUnimplemented, 501, "not_supported_error"},
    {absl::StatusCode::kUnavailable, 503, "unavailable_error"},
    {absl::StatusCode::kDeadlineExceeded, 504, "server_error"},
};
constexpr char kServerError[] = "server_error";
// Payload of a status whose field is named as the client sent it.
constexpr char kClientsParam[] = "baton/clients-param";
constexpr int kInternalServerError = 500;

const char* TypeOfStatus(int status) {
  for (const Kind& kind : kKinds) {
    if (kind.status == status) return kind.type;
  }
  return status >= kInternalServerError ? kServerError : "invalid_request_error";
}

// Fields that are called otherwise in JSON, or whose inner names clients do not know.
constexpr std::pair<const char*, const char*> kRenamed[] = {
    {"prompt_token_ids", "prompt"},
    {"token_ids", "tokens"},
    {"response_format", "response_format"},
};
constexpr const char* kPrefixes[] = {"sampling_params.", "chat."};

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

// A text from outside may be no UTF-8; then its bad bytes are replaced.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Anthropic has types of its own for these, and api_error for what else a server may fail with.
std::string AnthropicType(const ApiError& error) {
  constexpr std::pair<int, const char*> kTypes[] = {
      {413, "request_too_large"}, {503, "overloaded_error"}, {504, "timeout_error"}};
  for (const auto& [status, type] : kTypes) {
    if (error.status == status) return type;
  }
  return error.status >= kInternalServerError ? "api_error" : error.type;
}

}  // namespace

std::string ParamOfField(absl::string_view field) {
  for (const char* prefix : kPrefixes) {
    if (absl::ConsumePrefix(&field, prefix)) return std::string(field);
  }
  for (const auto& [name, renamed] : kRenamed) {
    const absl::string_view whole = name;
    if (field == whole || absl::StartsWith(field, absl::StrCat(whole, ".")) ||
        absl::StartsWith(field, absl::StrCat(whole, "["))) {
      return renamed;
    }
  }
  return std::string(field);
}

ApiError ApiErrorOf(const absl::Status& status) {
  ApiError error{.status = kInternalServerError, .type = kServerError};
  for (const Kind& kind : kKinds) {
    if (status.code() != kind.code) continue;
    error.status = kind.status;
    error.type = kind.type;
  }
  error.message = std::string(status.message());
  error.retry_after = RetryDelay(status);
  if (const std::vector<FieldViolation> violations = FieldViolations(status); !violations.empty()) {
    const std::string& field = violations.front().field;
    error.param_is_clients = status.GetPayload(kClientsParam).has_value();
    error.param = error.param_is_clients ? field : ParamOfField(field);
    error.message = absl::StrCat(error.param, ": ", violations.front().description);
  }
  error.code = absl::AsciiStrToLower(ErrorReason(status));
  if (error.code.empty() && status.code() == absl::StatusCode::kNotFound) {
    error.code = "model_not_found";
    error.param = "model";
  }
  return error;
}

ApiError ApiErrorWithStatus(int http_status, absl::string_view message) {
  return {
      .status = http_status, .type = TypeOfStatus(http_status), .message = std::string(message)};
}

absl::Status InvalidParam(absl::string_view param, absl::string_view what) {
  absl::Status status = InvalidField(param, what);
  status.SetPayload(kClientsParam, absl::Cord());
  return status;
}

std::string OpenAiErrorBody(const ApiError& error) {
  return Dump({{"error",
                {{"message", error.message},
                 {"type", error.type},
                 {"param", TextOrNull(error.param)},
                 {"code", TextOrNull(error.code)}}}});
}

std::string AnthropicErrorBody(const ApiError& error, const std::string& request_id) {
  return Dump({{"type", "error"},
               {"error", {{"type", AnthropicType(error)}, {"message", error.message}}},
               {"request_id", TextOrNull(request_id)}});
}

HttpResponse ErrorResponse(const ApiError& error, std::string body) {
  constexpr int kUnauthorized = 401;
  HttpResponse response = JsonResponse(error.status, std::move(body));
  if (error.status == kUnauthorized) {
    response.headers.push_back({"WWW-Authenticate", "Bearer"});
  }
  if (error.retry_after.has_value()) {
    const int64_t milliseconds = absl::ToInt64Milliseconds(*error.retry_after);
    constexpr int64_t kSecond = 1000;
    response.headers.push_back(
        {"Retry-After", absl::StrCat((milliseconds + kSecond - 1) / kSecond)});
    response.headers.push_back({"Retry-After-Ms", absl::StrCat(milliseconds)});
    response.headers.push_back({"X-Should-Retry", "true"});
  }
  return response;
}

}  // namespace baton
