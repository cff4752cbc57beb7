#include "router/http/cors.h"

#include <algorithm>

namespace baton {
namespace {

bool Allows(const std::vector<std::string>& origins, absl::string_view origin) {
  return std::any_of(origins.begin(), origins.end(), [&](const std::string& allowed) {
    return allowed == "*" || allowed == origin;
  });
}

}  // namespace

std::vector<HttpHeader> CorsHeaders(const std::vector<std::string>& origins,
                                    const HttpRequest& request) {
  if (origins.empty()) return {};
  // Caches must keep the answers to different pages apart, those to no page too.
  std::vector<HttpHeader> headers = {{"Vary", "Origin"}};
  const absl::string_view origin = request.Header("origin");
  if (origin.empty() || !Allows(origins, origin)) return headers;
  headers.push_back({"Access-Control-Allow-Origin", std::string(origin)});
  headers.push_back({"Access-Control-Expose-Headers",
                     "x-request-id, x-baton-warning, retry-after, retry-after-ms, x-should-retry"});
  return headers;
}

std::optional<HttpResponse> AnswerPreflight(const std::vector<std::string>& origins,
                                            const HttpRequest& request) {
  const absl::string_view method = request.Header("access-control-request-method");
  const absl::string_view origin = request.Header("origin");
  if (origins.empty() || request.method != "OPTIONS" || method.empty() || origin.empty()) {
    return std::nullopt;
  }
  HttpResponse answer{.status = 200};           // some old browsers and some clients take no 204
  if (!Allows(origins, origin)) return answer;  // without the headers the browser refuses
  answer.headers = {{"Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"},
                    {"Access-Control-Max-Age", "600"}};
  const absl::string_view headers = request.Header("access-control-request-headers");
  if (!headers.empty()) {
    answer.headers.push_back({"Access-Control-Allow-Headers", std::string(headers)});
  }
  return answer;
}

}  // namespace baton
