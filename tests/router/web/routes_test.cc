#include "router/web/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

absl::StatusOr<FoundRoute> Find(const std::string& method, const std::string& path) {
  return FindRoute({.method = method, .path = path});
}

TEST(Routes, AClientMayLeaveOutTheVersion) {
  for (const char* path : {"/v1/chat/completions", "/chat/completions"}) {
    const auto found = Find("POST", path);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->route, Route::kChatCompletions);
    EXPECT_TRUE(found->generates);
  }
  EXPECT_FALSE(Find("POST", "/v1/tokenize").ok());
  EXPECT_FALSE(Find("POST", "/v1").ok());
}

TEST(Routes, AModelsNameMayContainSlashes) {
  const auto found = Find("GET", "/v1/models/some/model");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->route, Route::kModel);
  EXPECT_EQ(found->rest, "some/model");
  EXPECT_EQ(Find("GET", "/v1/models")->route, Route::kModels);
  EXPECT_TRUE(absl::IsNotFound(Find("GET", "/v1/models/").status()));
}

TEST(Routes, APathThatIsNotThereIsAnsweredWithThoseThatAre) {
  const std::string message(Find("POST", "/v1/chat/complete").status().message());
  for (const char* path : {"/v1/chat/completions", "/v1/responses", "/v1/messages", "/health"}) {
    EXPECT_THAT(message, HasSubstr(path));
  }
  EXPECT_THAT(message, Not(HasSubstr("embeddings")));
}

TEST(Routes, AWrongMethodLearnsTheRightOnes) {
  EXPECT_EQ(Find("GET", "/v1/completions").status().message(), "POST");
  EXPECT_EQ(Find("DELETE", "/v1/models").status().message(), "GET, HEAD");
  EXPECT_TRUE(absl::IsFailedPrecondition(Find("GET", "/v1/completions").status()));
  EXPECT_TRUE(Find("HEAD", "/v1/models").ok());
}

TEST(Routes, OnlyProbesNeedNoKey) {
  for (const char* path : {"/health", "/ping", "/version"}) {
    EXPECT_TRUE(Find("GET", path)->open) << path;
    EXPECT_TRUE(IsProbe(path)) << path;
  }
  EXPECT_EQ(Find("GET", "/ping")->route, Find("GET", "/health")->route);
  for (const char* path : {"/v1/models", "/v1/models/x", "/tokenizer_info", "/metrics", "/"}) {
    EXPECT_FALSE(Find("GET", path)->open) << path;
    EXPECT_FALSE(IsProbe(path)) << path;
  }
  for (const char* path : {"/v1/messages", "/tokenize", "/detokenize", "/v1/embeddings",
                           "/v1/responses/input_tokens"}) {
    EXPECT_FALSE(Find("POST", path)->open) << path;
  }
}

TEST(Routes, ThePageAndTheMetricsAreForOperators) {
  for (const char* path : {"/", "/page/fleet", "/metrics"}) {
    EXPECT_TRUE(IsForOperators(path)) << path;
  }
  for (const char* path : {"/health", "/version", "/v1/models", "/v1/metrics", "/metrics/x"}) {
    EXPECT_FALSE(IsForOperators(path)) << path;
  }
}

TEST(Routes, ARoutesNameIsNoneOfTheClientsWords) {
  EXPECT_EQ(RouteName("/completions"), "/v1/completions");
  EXPECT_EQ(RouteName("/v1/completions"), "/v1/completions");
  EXPECT_EQ(RouteName("/models/some/model"), "/v1/models/{id}");
  EXPECT_EQ(RouteName("/v1/models/"), "other");
  EXPECT_EQ(RouteName("/some/thing"), "other");
  EXPECT_EQ(RouteName(""), "other");
}

TEST(Routes, ErrorsAreThoseOfThePathsApi) {
  const auto api = [](const char* path, std::vector<HttpHeader> headers = {}) {
    return ApiOf({.method = "GET", .path = path, .headers = std::move(headers)});
  };
  const std::vector<HttpHeader> anthropic = {{"anthropic-version", "2023-06-01"}};
  EXPECT_EQ(api("/v1/messages"), Api::kAnthropic);
  EXPECT_EQ(api("/v1/messages/count_tokens"), Api::kAnthropic);
  for (const char* path : {"/v1/responses", "/v1/responses/input_tokens"}) {
    EXPECT_EQ(api(path), Api::kResponses);
    EXPECT_EQ(api(path, anthropic), Api::kResponses);
  }
  EXPECT_EQ(api("/v1/chat/completions"), Api::kOpenAi);
  EXPECT_EQ(api("/v1/chat/completions", anthropic), Api::kOpenAi);
  for (const char* path : {"/elsewhere", "/v1/models", "/models/x"}) {
    EXPECT_EQ(api(path), Api::kOpenAi) << path;
    EXPECT_EQ(api(path, anthropic), Api::kAnthropic) << path;
  }
  EXPECT_EQ(FindRoute({.method = "GET", .path = "/v1/models", .headers = anthropic})->api,
            Api::kAnthropic);
}

}  // namespace
}  // namespace baton
