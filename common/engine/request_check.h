// The checks that a request has to pass before an engine takes it.
#pragma once

#include "absl/status/status.h"

#include "common/engine/sequence_request.h"

namespace baton {

struct EngineLimits {
  int vocab_size = 0;
  int max_model_len = 0;  // tokens
  int block_size = 0;     // tokens
  int total_blocks = 0;
};

// INVALID_ARGUMENT, naming the field, for a request that is malformed or could never run within
// `limits`.
absl::Status CheckRequest(const SequenceRequest& request, const EngineLimits& limits);

// Checks the ranges of baton.v1.SamplingParams. INVALID_ARGUMENT names the field.
absl::Status CheckSampling(const SamplingParams& sampling, int vocab_size);

}  // namespace baton
