// From the record of an ended request to its spans. A pure function.
#pragma once

#include <cstdint>
#include <string>

#include "router/page/request_record.h"
#include "router/trace/request_trace.h"

namespace baton {

// What the record does not have.
struct TracedRequest {
  TraceContext context{};
  std::string model{};  // its name to clients
  bool chat = false;    // the prompt was a conversation
  bool stream = false;
  uint32_t max_tokens = 0;
  uint32_t choices = 1;
  double temperature = 1;
  double top_p = 1;
  int32_t top_k = 0;  // 0: off
};

// The stages are those of the waterfall (router/page/waterfall.h), cut to the attempt where two
// clocks disagree by a little, and between them what the waterfall has no lane for:
//
//   chat MODEL                              the request, from its arrival to its end
//     attempt                               each
//       queue, placement                    waits for workers; until the decode worker has reserved
//       prefill.queue, prefill.compute      at the worker that prefills; chunks are pieces
//       kv.transfer                         overlaps the prefill; messages are pieces
//       decode.queue, decode
//
// Attributes have the names of OpenTelemetry's conventions for generative AI and of vLLM
// (gen_ai....), and ours (baton....). The times among them are those of the answer's timings.
// REQUIRES: record.ended(), and it has its tries.
RequestTrace LayTrace(const RequestRecord& record, const TracedRequest& request);

}  // namespace baton
