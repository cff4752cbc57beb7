// The routes of the HTTP API.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/access/access_table.h"
#include "router/http/message.h"

namespace baton {

enum class Route {
  kHealth,
  kVersion,
  kMetrics,
  kModels,
  kModel,  // `rest` is its id
  kChatCompletions,
  kCompletions,
  kResponses,
  kMessages,
  kCountTokens,  // Anthropic's route that counts a prompt's tokens
  kInputTokens,  // OpenAI's route that counts a prompt's tokens
  kTokenize,
  kDetokenize,
  kTokenizerInfo,
  kPage,       // the page, its files and its data
  kNotServed,  // routes of OpenAI's API that Baton does not serve
};

// The API whose form a route's errors have.
enum class Api { kOpenAi, kResponses, kAnthropic };

struct FoundRoute {
  Route route = Route::kHealth;
  std::string rest{};
  bool posts = false;      // whether it takes a body
  bool open = false;       // whether it needs no key
  bool generates = false;  // whether it runs prompts
  // The gRPC method that does the same and is open to the same roles.
  absl::string_view method = kListModelsMethod;
  Api api = Api::kOpenAi;
};

// Returns the route of `head`; HEAD counts as GET. NOT_FOUND if the path is unknown.
// FAILED_PRECONDITION if the path has other methods: the message lists them, as the header Allow
// does.
absl::StatusOr<FoundRoute> FindRoute(const HttpRequest& head);
// Whether the path is that of the page, one of its files or its data.
bool IsOfPage(absl::string_view path);
// Whether the path is only for this machine and operators: the page and /metrics.
bool IsForOperators(absl::string_view path);
// Whether it is the path of a probe, which needs no key.
bool IsProbe(absl::string_view path);
// Returns the API of the request's path. The list of models is in both APIs, and an unknown path in
// neither: for these it is Anthropic's if the request has the header anthropic-version, else
// OpenAI's.
Api ApiOf(const HttpRequest& head);
// Returns the documented path of the route, such as "/v1/models/{id}"; "other" if it is unknown.
absl::string_view RouteName(absl::string_view path);

}  // namespace baton
