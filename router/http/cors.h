// Decides which pages of other origins may read answers (the Fetch standard, "CORS protocol").
// Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "router/http/message.h"

namespace baton {

// The headers that an answer to `request` needs. `origins` as HttpServer::Options::cors_origins;
// none: no headers.
std::vector<HttpHeader> CorsHeaders(const std::vector<std::string>& origins,
                                    const HttpRequest& request);

// The answer to a browser that asks whether a page may send a request; nullopt: `request` is
// another.
std::optional<HttpResponse> AnswerPreflight(const std::vector<std::string>& origins,
                                            const HttpRequest& request);

}  // namespace baton
