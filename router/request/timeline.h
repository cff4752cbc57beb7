// Sums up the times of a request that its workers report.
#pragma once

#include "baton/internal/v1/decode.pb.h"
#include "baton/internal/v1/prefill.pb.h"
#include "baton/v1/generation.pb.h"

namespace baton {

// Adds the times of the attempt's prefill worker: the account sums over attempts.
void AddPrefill(const internal::v1::PrefillFinished& finished, v1::RequestTimings* timings);
// Takes over the decode worker's report at the end of a choice: `exact`, and its times if they are
// longer than the times of the other choices.
void AddDecode(const internal::v1::DecodeFinished& finished, bool local_prefill,
               v1::RequestTimings* timings);

}  // namespace baton
