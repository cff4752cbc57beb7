// The sampling parameters as flags of `baton run` and as settings of its chat.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "baton/v1/generation.pb.h"
#include "common/flags/flags.h"
#include "common/gguf/gguf_file.h"

namespace baton {

// The defaults of `baton run`, where neither a flag nor the model sets another value. With the
// defaults of the API (temperature 1, no limit but the context) a small model rambles.
inline constexpr float kDefaultTemperature = 0.7F;
inline constexpr uint32_t kDefaultMaxTokens = 512;

// Binds a flag to each field of `params` that people set. REQUIRES: `params` outlives `flags`.
void AddSamplingFlags(FlagSet& flags, v1::SamplingParams& params);

// Sets the fields that no flag has set to the defaults of `model`, its keys general.sampling.*; a
// temperature without such a key becomes kDefaultTemperature. `model` may be null. max_tokens is
// left to the caller, because the context may leave fewer than kDefaultMaxTokens. An error names
// the key. REQUIRES: `flags` has the flags of AddSamplingFlags.
absl::Status FillSamplingDefaults(const FlagSet& flags, const GgufFile* model,
                                  v1::SamplingParams& params);

}  // namespace baton
