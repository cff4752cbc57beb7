// The sampling parameters as flags of `baton run` and as settings of its chat.
#pragma once

#include <cstdint>
#include <string>

#include "baton/v1/generation.pb.h"
#include "common/flags/flags.h"

namespace baton {

// Most tokens of an answer of `baton run` without --max-tokens. The API has no limit but the
// context, with which a small model rambles.
inline constexpr uint32_t kDefaultMaxTokens = 512;

// Binds a flag to each field of `params` that people set. REQUIRES: `params` outlives `flags`.
void AddSamplingFlags(FlagSet& flags, v1::SamplingParams& params);

// What is set, by the names of the flags: `temperature 0.5, stop "a, b", seed 7`. Empty if
// nothing is.
std::string SamplingText(const v1::SamplingParams& params);

}  // namespace baton
