// Makes the requests of an attempt: for workers from placement, and for calls to its workers.
#pragma once

#include <cstdint>

#include "router/request/attempt.h"
#include "router/request/events.h"
#include "router/request/request_state.h"

namespace baton {

// Returns the needs of the attempt with the present tokens of its choices.
WorkerNeeds NeedsOf(const RequestState& request, const Attempt& attempt);

// The call to `workers.decode` that computes the attempt's choices under `number`: the attempt's
// own, or that of the hedged attempt beside it.
OpenDecode MakeOpenDecode(const RequestState& request, const Attempt& attempt, uint32_t number,
                          const WorkersChosen& workers);

// The call to the attempt's prefill worker. `accepted` is its decode worker's answer; null: it has
// none.
StartPrefill MakeStartPrefill(const RequestState& request, const Attempt& attempt,
                              const internal::v1::DecodeAccepted* accepted);

// Messages to the attempt's decode worker in its call: a choice ends here; whether the client is
// behind.
SendToDecode MakeStop(const Attempt& attempt, uint32_t choice);
SendToDecode MakeFlow(const Attempt& attempt, bool paused);

}  // namespace baton
