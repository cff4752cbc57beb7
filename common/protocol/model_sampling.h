// The sampling parameters that a model's makers recommend.
#pragma once

#include "absl/status/statusor.h"

#include "baton/v1/generation.pb.h"
#include "common/gguf/gguf_file.h"

namespace baton {

// Reads the keys general.sampling.temp, .top_k, .top_p, .min_p and .penalty_repeat, which of a
// folder are those of its generation_config.json (common/hugging_face/tokenizer_keys.h). A field
// whose key is not there stays unset; a top_k below 1, which means that it is off, becomes 0.
// INVALID_ARGUMENT names the file, the key and the remedy, if a value is no number or not one
// that a client may send (validate_request.h).
absl::StatusOr<v1::SamplingParams> ReadModelSampling(const GgufFile& file);

}  // namespace baton
