#include "router/api/api_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/rpc/status.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

TEST(ApiError, EveryKindOfStatusHasItsNumberAndType) {
  const struct {
    absl::StatusCode code;
    int status;
    const char* type;
  } kinds[] = {
      {absl::StatusCode::kInvalidArgument, 400, "invalid_request_error"},
      {absl::StatusCode::kUnauthenticated, 401, "authentication_error"},
      {absl::StatusCode::kPermissionDenied, 403, "permission_error"},
      {absl::StatusCode::kNotFound, 404, "not_found_error"},
      {absl::StatusCode::kResourceExhausted, 429, "rate_limit_error"},
      {absl::StatusCode::kUnimplemented, 501, "not_supported_error"},
      {absl::StatusCode::kUnavailable, 503, "unavailable_error"},
      {absl::StatusCode::kDeadlineExceeded, 504, "server_error"},
      {absl::StatusCode::kInternal, 500, "server_error"},
      {absl::StatusCode::kDataLoss, 500, "server_error"},
  };
  for (const auto& [code, status, type] : kinds) {
    const ApiError error = ApiErrorOf(absl::Status(code, "why"));
    EXPECT_EQ(error.status, status);
    EXPECT_EQ(error.type, type);
    EXPECT_EQ(error.message, "why");
  }
}

TEST(ApiError, AViolationIsNamedAsClientsKnowTheField) {
  const ApiError error = ApiErrorOf(InvalidField("sampling_params.top_p", "must be in (0, 1]"));
  EXPECT_EQ(error.param, "top_p");
  EXPECT_EQ(error.message, "top_p: must be in (0, 1]");
  EXPECT_EQ(ParamOfField("chat.messages[0].content"), "messages[0].content");
  EXPECT_EQ(ParamOfField("prompt_token_ids.ids"), "prompt");
  EXPECT_EQ(ParamOfField("response_format.json_schema"), "response_format");
  EXPECT_EQ(ParamOfField("prompt"), "prompt");
}

TEST(ApiError, AFieldOfTheBodyKeepsItsNameThere) {
  const ApiError error = ApiErrorOf(InvalidParam("response_format.json_schema", "is missing"));
  EXPECT_EQ(error.param, "response_format.json_schema");
  EXPECT_EQ(error.message, "response_format.json_schema: is missing");
}

TEST(ApiError, ReasonsAreCodes) {
  const ApiError error = ApiErrorOf(WithErrorInfo(InvalidField("sampling_params.max_tokens", "x"),
                                                  {.reason = kReasonContextLengthExceeded}));
  EXPECT_EQ(error.code, "context_length_exceeded");
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(ApiErrorOf(absl::NotFoundError("x")).code, "model_not_found");
}

TEST(ApiError, TheEnvelopeIsThatOfOpenAi) {
  const ApiError error{
      .status = 400, .type = "invalid_request_error", .param = "n", .message = "m\xFF"};
  EXPECT_EQ(Json::parse(OpenAiErrorBody(error)),
            Json::parse(R"({"error": {"message": "m\ufffd", "type": "invalid_request_error",
                                      "param": "n", "code": null}})"));
  const auto anthropic = [](const ApiError& told) {
    return Json::parse(AnthropicErrorBody(told, "req"));
  };
  EXPECT_EQ(anthropic({.status = 503, .type = "unavailable_error"})["error"]["type"],
            "overloaded_error");
  EXPECT_EQ(anthropic({.status = 500, .type = "server_error"})["error"]["type"], "api_error");
  EXPECT_EQ(anthropic(error)["request_id"], "req");
}

TEST(ApiError, AWaitIsToldInEveryUnitThatClientsRead) {
  const ApiError error =
      ApiErrorOf(WithRetryInfo(absl::UnavailableError("x"), absl::Milliseconds(1200)));
  const HttpResponse response = ErrorResponse(error, "{}");
  EXPECT_EQ(response.status, 503);
  EXPECT_THAT(response.headers, ::testing::Contains(HttpHeader{"Retry-After", "2"}));
  EXPECT_THAT(response.headers, ::testing::Contains(HttpHeader{"Retry-After-Ms", "1200"}));
  EXPECT_THAT(response.headers, ::testing::Contains(HttpHeader{"X-Should-Retry", "true"}));
  const HttpResponse refused = ErrorResponse(ApiErrorOf(absl::UnauthenticatedError("x")), "{}");
  EXPECT_THAT(refused.headers, ::testing::Contains(HttpHeader{"WWW-Authenticate", "Bearer"}));
  EXPECT_THAT(refused.headers,
              ::testing::Not(::testing::Contains(HttpHeader{"X-Should-Retry", "true"})));
}

TEST(ApiError, AnErrorOfHttpAloneHasTheTypeOfItsNumber) {
  EXPECT_EQ(ApiErrorWithStatus(405, "m").type, "invalid_request_error");
  EXPECT_EQ(ApiErrorWithStatus(404, "m").type, "not_found_error");
  EXPECT_EQ(ApiErrorWithStatus(500, "m").type, "server_error");
  EXPECT_EQ(ApiErrorWithStatus(501, "m").type, "not_supported_error");
}

}  // namespace
}  // namespace baton
