// How answers are drawn: the flags of `baton run` that are also the settings of
// a chat.
#pragma once

#include "baton/v1/generation.pb.h"
#include "common/rpc/flags.h"

namespace baton {

// Binds a flag to each field of `params` that people set. `params` must outlive
// `flags`.
void AddSamplingFlags(FlagSet& flags, v1::SamplingParams& params);

}  // namespace baton
