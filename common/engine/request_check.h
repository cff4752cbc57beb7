// Checks requests before an engine accepts them (checked_sequence.h).
#pragma once

#include <optional>
#include <string>

#include "common/base/kv_layer_groups.h"
#include "common/engine/sequence_request.h"

namespace baton {

struct EngineLimits {
  int vocab_size = 0;
  int max_model_len = 0;  // tokens
  int block_size = 0;     // tokens
  KvLayerGroups groups = {};
  int chunk_tokens = 0;  // most tokens of a sequence in a step
  int total_blocks = 0;
};

// Whether the engine can take the request without harm: ids are in the vocabulary, and counts and
// lengths agree with each other. The maker of a request ensures that, and the ranges of
// baton.v1.SamplingParams; for requests from outside SequenceFromProto does
// (common/worker/convert.h).
bool IsWellFormed(const SequenceRequest& request, const EngineLimits& limits);

struct RequestMisfit {
  std::string field;        // field of baton.internal.v1.SequenceSpec: "sampling.n"
  std::string description;  // with the remedy
};
// Why a request could never run within `limits`, though it is well formed: it needs more blocks
// than there are.
std::optional<RequestMisfit> FindMisfit(const SequenceRequest& request, const EngineLimits& limits);

}  // namespace baton
