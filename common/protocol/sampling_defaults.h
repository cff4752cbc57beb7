// The sampling of requests that leave it open. One rule for every way in: gRPC, HTTP and `baton run
// --model`.
#pragma once

#include <string>

#include "absl/status/statusor.h"

#include "baton/v1/generation.pb.h"
#include "common/flags/flags.h"
#include "common/gguf/gguf_file.h"

namespace baton {

// Temperature and top-p apply if neither the request nor the model's file sets them, each field by
// itself: a request that sets one of the two keeps the default of the other.
struct SamplingDefaults {
  std::string generation_config = "auto";  // none: the model's own sampling is left out
  double temperature = 0.7;                // finite, at least 0; 0: greedy
  double top_p = 0.95;                     // in (0, 1]; 1: off
};

// Binds --generation-config, --default-temperature and --default-top-p. Each help text ends with
// `note`, such as "; needs --model". REQUIRES: `defaults` outlives `flags`.
void AddSamplingDefaultFlags(FlagSet& flags, SamplingDefaults& defaults,
                             const std::string& note = "");

// Sets temperature and top_p of `params`, if they are unset, to those of `defaults`.
void FillTemperatureAndTopP(const SamplingDefaults& defaults, v1::SamplingParams& params);

// Returns the sampling parameters of a request that sets none: those that the file of the model
// recommends (ReadModelSampling, whose errors these are), unless they are left out, and temperature
// and top_p in any case. Other fields may be unset.
absl::StatusOr<v1::SamplingParams> DefaultSampling(const GgufFile& file,
                                                   const SamplingDefaults& defaults);

}  // namespace baton
