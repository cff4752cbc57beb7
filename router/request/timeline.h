// Where the time of a request went, as its workers tell it.
#pragma once

#include "baton/internal/v1/decode.pb.h"
#include "baton/internal/v1/prefill.pb.h"
#include "baton/v1/generation.pb.h"

namespace baton {

// Sums over attempts: what an earlier attempt put in stays.
void AddPrefill(const internal::v1::PrefillFinished& finished, v1::RequestTimings* timings);
// Sets `exact` as the decode worker says; of several choices the slowest counts.
void AddDecode(const internal::v1::DecodeFinished& finished, bool local_prefill,
               v1::RequestTimings* timings);

}  // namespace baton
