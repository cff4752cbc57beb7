// The ids of a request and of its answer. Pure but for the ids that are drawn; thread-safe.
#pragma once

#include <string>

#include "router/http/message.h"

namespace baton {

// The client's own id of the request: x-request-id, or the trace that it belongs to. Else a new
// one. The access log has the same id, which a request that has an entry there keeps.
std::string RequestIdOf(const HttpRequest& head);

// Draws an id of 32 hexadecimal digits. An answer has one of its own: requests that share a trace
// or an x-request-id must not share the ids of their answers and calls.
std::string NewId();

}  // namespace baton
