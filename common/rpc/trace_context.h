// The place of a request in a trace, as W3C's Trace Context writes it
// (https://www.w3.org/TR/trace-context/).
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace baton {

// The headers, and the metadata of gRPC, that carry it.
inline constexpr char kTraceParentHeader[] = "traceparent";
inline constexpr char kTraceStateHeader[] = "tracestate";

// What a caller says of the trace that its request belongs to.
struct TraceHeaders {
  absl::string_view parent;  // traceparent; empty: none
  absl::string_view state;   // tracestate, passed on unread
};

// A valid traceparent.
struct TraceParent {
  absl::string_view trace_id;  // 32 lower-case hexadecimal digits
  absl::string_view span_id;   // 16 of them
  bool sampled = false;        // the caller records its own part
};
// None if `text` is not valid. The result points into `text`.
std::optional<TraceParent> ParseTraceParent(absl::string_view text);

// One request's own place. Ids are lower-case hexadecimal digits.
struct TraceContext {
  std::string trace_id;   // 32 digits: the caller's, or drawn
  std::string span_id;    // 16 digits, drawn: the span of the request in this router
  std::string parent_id;  // the caller's span; empty: the trace begins here
  std::string state;      // the caller's tracestate, passed on unread; at most kMaxTraceState bytes
  bool sampled = false;   // the spans are exported
};
inline constexpr size_t kMaxTraceState = 512;

// The traceparent of calls made for the request: their parent is its span.
std::string TraceParentOf(const TraceContext& context);

}  // namespace baton
