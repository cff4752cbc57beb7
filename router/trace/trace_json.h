// Attributes of spans as JSON of the two formats. Pure functions.
#pragma once

#include "absl/types/span.h"
#include <nlohmann/json.hpp>

#include "router/trace/request_trace.h"

namespace baton {

// Text of any bytes: what is no UTF-8 is replaced.
std::string TraceText(const nlohmann::ordered_json& json);

// The events of one request in the Trace Event Format, which Perfetto and chrome://tracing read:
// "X" events with `ts` and `dur` in whole microseconds of the Unix epoch. `tracks`: for each span
// the thread (tid) that shows it. `pid`: the process that shows all.
std::vector<nlohmann::ordered_json> ChromeEvents(const RequestTrace& trace, int pid,
                                                 absl::Span<const int> tracks);

// What sends spans.
struct OtlpResource {
  TraceAttributes attributes;  // service.name and so on
};
// An ExportTraceServiceRequest by the JSON mapping of OTLP: ids are hexadecimal, 64-bit numbers are
// strings. Chunks and messages are left out: each stage is one span.
std::string OtlpBody(const OtlpResource& resource, absl::Span<const RequestTrace> traces);

}  // namespace baton
