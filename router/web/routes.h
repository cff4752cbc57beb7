// What the HTTP door serves.
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
  kCountTokens,  // of a prompt, as Anthropic counts them
  kInputTokens,  // as OpenAI does
  kTokenize,
  kDetokenize,
  kTokenizerInfo,
  kPage,       // and what it consists of, and reads
  kNotServed,  // what OpenAI has and Baton has not
};

// Whose words and envelope a route's errors have.
enum class Api { kOpenAi, kResponses, kAnthropic };

struct FoundRoute {
  Route route = Route::kHealth;
  std::string rest{};
  bool posts = false;      // takes a body
  bool open = false;       // needs no key
  bool generates = false;  // runs prompts
  // The method of gRPC that does the same, and that is open to the same roles.
  absl::string_view method = kListModelsMethod;
  Api api = Api::kOpenAi;
};

// Where `head` goes; HEAD as GET. NOT_FOUND: the path is unknown. FAILED_PRECONDITION: the path has
// other methods, which the message lists, as the header Allow does.
absl::StatusOr<FoundRoute> FindRoute(const HttpRequest& head);
// Whether the page, or what it consists of or reads, is at that path.
bool IsOfPage(absl::string_view path);
// Whether what is at that path is for this machine and operators alone: the page and /metrics.
bool IsForOperators(absl::string_view path);
// Whether it is the path of a probe, which needs no key.
bool IsProbe(absl::string_view path);
// The API of the request's path. Models are listed in both, and unknown paths are of neither: these
// are Anthropic's if the request has the header anthropic-version, else OpenAI's.
Api ApiOf(const HttpRequest& head);
// The path of the route as it is documented, such as "/v1/models/{id}"; "other" where it is unknown.
absl::string_view RouteName(absl::string_view path);

}  // namespace baton
