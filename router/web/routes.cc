#include "router/web/routes.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "common/base/log.h"

namespace baton {
namespace {

struct Entry {
  const char* path;  // clients whose base address lacks "/v1" find those below it too
  FoundRoute found;
};

FoundRoute Generates(Route route, Api api) {
  return {.route = route, .posts = true, .generates = true, .method = kGenerateMethod, .api = api};
}

constexpr char kMetricsPath[] = "/metrics";

// In no order but the reader's: no path begins another but "/models/".
const Entry kEntries[] = {
    {"/health", {.route = Route::kHealth, .open = true}},
    {"/ping", {.route = Route::kHealth, .open = true}},
    {"/version", {.route = Route::kVersion, .open = true}},
    {kMetricsPath, {.route = Route::kMetrics}},
    {"/v1/models", {.route = Route::kModels}},
    {"/v1/chat/completions", Generates(Route::kChatCompletions, Api::kOpenAi)},
    {"/v1/completions", Generates(Route::kCompletions, Api::kOpenAi)},
    {"/v1/responses", Generates(Route::kResponses, Api::kResponses)},
    {"/v1/responses/input_tokens",
     {.route = Route::kInputTokens,
      .posts = true,
      .method = kTokenizeMethod,
      .api = Api::kResponses}},
    {"/v1/messages", Generates(Route::kMessages, Api::kAnthropic)},
    {"/v1/messages/count_tokens",
     {.route = Route::kCountTokens,
      .posts = true,
      .method = kTokenizeMethod,
      .api = Api::kAnthropic}},
    {"/v1/embeddings", {.route = Route::kNotServed, .posts = true}},
    {"/tokenize", {.route = Route::kTokenize, .posts = true, .method = kTokenizeMethod}},
    {"/detokenize", {.route = Route::kDetokenize, .posts = true, .method = kDetokenizeMethod}},
    {"/tokenizer_info", {.route = Route::kTokenizerInfo}},
};
constexpr absl::string_view kVersion = "/v1";
constexpr absl::string_view kModelPath = "/models/";

bool Matches(absl::string_view path, absl::string_view of_entry) {
  return path == of_entry || (absl::ConsumePrefix(&of_entry, kVersion) && path == of_entry);
}

const Entry* FindEntry(absl::string_view path) {
  for (const Entry& entry : kEntries) {
    if (Matches(path, entry.path)) return &entry;
  }
  return nullptr;
}

// The id in the path of a model; empty: it is none.
absl::string_view ModelIdOf(absl::string_view path) {
  absl::ConsumePrefix(&path, kVersion);
  return absl::ConsumePrefix(&path, kModelPath) ? path : "";
}

absl::StatusOr<FoundRoute> FindPath(absl::string_view path) {
  if (const Entry* entry = FindEntry(path); entry != nullptr) return entry->found;
  if (IsOfPage(path)) return FoundRoute{.route = Route::kPage};
  if (const absl::string_view id = ModelIdOf(path); !id.empty()) {
    return FoundRoute{.route = Route::kModel, .rest = std::string(id)};
  }
  std::vector<absl::string_view> served;
  for (const Entry& entry : kEntries) {
    if (entry.found.route != Route::kNotServed) served.push_back(entry.path);
  }
  return absl::NotFoundError(absl::StrCat("there is no ", LogSafe(std::string(path)),
                                          " on this server; it has ", absl::StrJoin(served, ", ")));
}

}  // namespace

bool IsOfPage(absl::string_view path) { return path == "/" || absl::StartsWith(path, "/page/"); }

bool IsForOperators(absl::string_view path) { return IsOfPage(path) || path == kMetricsPath; }

bool IsProbe(absl::string_view path) {
  const Entry* const entry = FindEntry(path);
  return entry != nullptr && entry->found.open;
}

absl::StatusOr<FoundRoute> FindRoute(const HttpRequest& head) {
  absl::StatusOr<FoundRoute> found = FindPath(head.path);
  if (!found.ok()) return found;
  found->api = ApiOf(head);
  const bool reads = head.method == "GET" || head.method == "HEAD";
  if (found->posts ? head.method == "POST" : reads) return found;
  return absl::FailedPreconditionError(found->posts ? "POST" : "GET, HEAD");
}

Api ApiOf(const HttpRequest& head) {
  const absl::StatusOr<FoundRoute> found = FindPath(head.path);
  const bool of_both =
      !found.ok() || found->route == Route::kModels || found->route == Route::kModel;
  if (!of_both) return found->api;
  return head.Header("anthropic-version").empty() ? Api::kOpenAi : Api::kAnthropic;
}

absl::string_view RouteName(absl::string_view path) {
  if (const Entry* entry = FindEntry(path); entry != nullptr) return entry->path;
  if (IsOfPage(path)) return "/page/";
  return ModelIdOf(path).empty() ? "other" : "/v1/models/{id}";
}

}  // namespace baton
