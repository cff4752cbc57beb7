#include "router/web/routes.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "common/base/log.h"

namespace baton {
namespace {

struct Entry {
  const char* path;  // clients whose base address lacks "/v1" find those below it too
  FoundRoute found;
};

// In no order but the reader's: no path begins another but "/models/".
const Entry kEntries[] = {
    {"/health", {.route = Route::kHealth, .open = true}},
    {"/v1/models", {.route = Route::kModels}},
    {"/v1/chat/completions", {.route = Route::kChatCompletions, .posts = true, .generates = true}},
    {"/v1/completions", {.route = Route::kCompletions, .posts = true, .generates = true}},
    {"/v1/responses",
     {.route = Route::kResponses, .posts = true, .generates = true, .api = Api::kResponses}},
    {"/v1/messages",
     {.route = Route::kMessages, .posts = true, .generates = true, .api = Api::kAnthropic}},
    {"/v1/messages/count_tokens",
     {.route = Route::kCountTokens, .posts = true, .api = Api::kAnthropic}},
    {"/v1/embeddings", {.route = Route::kNotServed, .posts = true}},
    {"/tokenize", {.route = Route::kTokenize, .posts = true}},
    {"/detokenize", {.route = Route::kDetokenize, .posts = true}},
    {"/tokenizer_info", {.route = Route::kTokenizerInfo}},
};
constexpr absl::string_view kVersion = "/v1";
constexpr absl::string_view kModelPath = "/models/";

bool Matches(absl::string_view path, absl::string_view of_entry) {
  return path == of_entry || (absl::ConsumePrefix(&of_entry, kVersion) && path == of_entry);
}

absl::StatusOr<FoundRoute> FindPath(absl::string_view path) {
  for (const Entry& entry : kEntries) {
    if (Matches(path, entry.path)) return entry.found;
  }
  if (path == "/" || absl::StartsWith(path, "/page/")) return FoundRoute{.route = Route::kPage};
  absl::string_view rest = path;
  absl::ConsumePrefix(&rest, kVersion);
  if (absl::ConsumePrefix(&rest, kModelPath) && !rest.empty()) {
    return FoundRoute{.route = Route::kModel, .rest = std::string(rest)};
  }
  return absl::NotFoundError(
      absl::StrCat("there is no ", LogSafe(std::string(path)), " here; see docs/http.md"));
}

}  // namespace

absl::StatusOr<FoundRoute> FindRoute(const HttpRequest& head) {
  absl::StatusOr<FoundRoute> found = FindPath(head.path);
  if (!found.ok()) return found;
  const bool reads = head.method == "GET" || head.method == "HEAD";
  if (found->posts ? head.method == "POST" : reads) return found;
  return absl::FailedPreconditionError(found->posts ? "POST" : "GET, HEAD");
}

Api ApiOfPath(absl::string_view path) {
  const absl::StatusOr<FoundRoute> found = FindPath(path);
  return found.ok() ? found->api : Api::kOpenAi;
}

}  // namespace baton
