// The id by which a client and the router call one request. Pure but for the ids that it draws;
// thread-safe.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

#include "router/http/message.h"

namespace baton {

// The trace of a traceparent (W3C's Trace Context, "traceparent Header"): 32 hexadecimal digits.
// Empty where it is not valid.
absl::string_view TraceOf(absl::string_view traceparent);

// The client's own id of the request: x-request-id, or the trace that it belongs to. Else a new
// one.
std::string RequestIdOf(const HttpRequest& head);

}  // namespace baton
