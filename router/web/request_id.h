// The id by which a client and the router call one request. Pure but for the ids that it draws;
// thread-safe.
#pragma once

#include <string>

#include "router/http/message.h"

namespace baton {

// The client's own id of the request: x-request-id, or the trace that it belongs to. Else a new
// one. The access log has the same id, which a request that has an entry there keeps.
std::string RequestIdOf(const HttpRequest& head);

}  // namespace baton
