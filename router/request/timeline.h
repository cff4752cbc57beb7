// Where the time of a request went, as its workers tell it.
#pragma once

#include "baton/internal/v1/decode.pb.h"
#include "baton/internal/v1/prefill.pb.h"
#include "baton/v1/generation.pb.h"

namespace baton {

// Adds what the attempt's prefill worker tells: the account sums over attempts.
void AddPrefill(const internal::v1::PrefillFinished& finished, v1::RequestTimings* timings);
// Takes over what the decode worker tells at the end of a choice: `exact`, and its times where they
// are longer than those of the other choices.
void AddDecode(const internal::v1::DecodeFinished& finished, bool local_prefill,
               v1::RequestTimings* timings);

}  // namespace baton
