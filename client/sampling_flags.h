// How answers are drawn: the flags of `baton run` that are also the settings of a chat.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "baton/v1/generation.pb.h"
#include "common/flags/flags.h"
#include "common/gguf/gguf_file.h"

namespace baton {

// What `baton run` asks for where neither a flag nor the model says otherwise: with the sampling of
// the API itself, temperature 1 and no limit but the context, a small model rambles.
inline constexpr float kDefaultTemperature = 0.7F;
inline constexpr uint32_t kDefaultMaxTokens = 512;

// Binds a flag to each field of `params` that people set. `params` must outlive `flags`.
void AddSamplingFlags(FlagSet& flags, v1::SamplingParams& params);

// Sets what no flag has set and has a default: by the keys general.sampling.* of `model`, which may
// be null, else the temperature as above. The limit of tokens is left to who asks: a context may
// leave fewer. The error names the key. REQUIRES: `flags` has the flags of AddSamplingFlags.
absl::Status FillSamplingDefaults(const FlagSet& flags, const GgufFile* model,
                                  v1::SamplingParams& params);

}  // namespace baton
