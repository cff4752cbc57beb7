// What an attempt asks for: workers of placement, and calls of its workers.
#pragma once

#include <cstdint>

#include "router/request/attempt.h"
#include "router/request/events.h"
#include "router/request/request_state.h"

namespace baton {

// What the attempt needs with the tokens that its choices have now.
WorkerNeeds NeedsOf(const RequestState& request, const Attempt& attempt);

// The call to `workers.decode` that computes the attempt's choices under `number`: the attempt's
// own, or that of the hedged attempt beside it.
OpenDecode MakeOpenDecode(const RequestState& request, const Attempt& attempt, uint32_t number,
                          const WorkersChosen& workers);

// The call to the attempt's prefill worker. `accepted` is its decode worker's answer; null: it has
// none.
StartPrefill MakeStartPrefill(const RequestState& request, const Attempt& attempt,
                              const internal::v1::DecodeAccepted* accepted);

// What the attempt's decode worker is told in its call: that a choice ends here; whether the client
// is behind.
SendToDecode MakeStop(const Attempt& attempt, uint32_t choice);
SendToDecode MakeFlow(const Attempt& attempt, bool paused);

}  // namespace baton
