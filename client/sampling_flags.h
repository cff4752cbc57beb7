// The sampling parameters as flags of `baton run` and as settings of its chat.
#pragma once

#include <cstdint>

#include "baton/v1/generation.pb.h"
#include "common/flags/flags.h"

namespace baton {

// The defaults of `baton run`, where neither a flag nor the model sets another value; that of the
// temperature only with --model, because a server has its own. With the defaults of the API
// (temperature 1, no limit but the context) a small model rambles.
inline constexpr float kDefaultTemperature = 0.7F;
inline constexpr uint32_t kDefaultMaxTokens = 512;

// Binds a flag to each field of `params` that people set. REQUIRES: `params` outlives `flags`.
void AddSamplingFlags(FlagSet& flags, v1::SamplingParams& params);

// Sets the fields of `params` that are unset to those of `recommended`, and a temperature that is
// unset in both to kDefaultTemperature. max_tokens is left to the caller, because the context may
// leave fewer than kDefaultMaxTokens.
void FillSamplingDefaults(v1::SamplingParams recommended, v1::SamplingParams& params);

}  // namespace baton
