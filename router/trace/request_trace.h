// One ended request as spans: what the trace file and OTLP are written from. Counts, times, names of
// workers and of errors; never a text, a token or a tenant's name.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/rpc/trace_context.h"

namespace baton {

using TraceValue = std::variant<bool, int64_t, double, std::string, std::vector<std::string>>;
using TraceAttributes = std::vector<std::pair<std::string, TraceValue>>;

struct TraceSpan {
  std::string name{};
  int parent = -1;       // place of the span that contains it; -1: it is the request's
  int64_t begin_ns = 0;  // nanoseconds of the Unix epoch, as end_ns
  int64_t end_ns = 0;
  std::string error{};  // why it failed; empty: it did not
  TraceAttributes attributes{};
};

// Where in the tree a span stands is said by its parents: the request (0 of them), its attempts (1),
// their stages (2), and the pieces of a stage, chunks of a prefill and messages of a transfer (3).
struct RequestTrace {
  TraceContext context{};
  // The first is the request's. A parent stands before its children and contains them.
  std::vector<TraceSpan> spans{};
};

}  // namespace baton
