// Between the messages of the internal protocol and the engine's own types. Messages come from
// outside: every value is checked before it becomes a number inside.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "baton/internal/v1/common.pb.h"
#include "baton/v1/generation.pb.h"
#include "common/backend/sampling_params.h"
#include "common/engine/checked_sequence.h"
#include "common/engine/request_check.h"
#include "common/engine/sequence_request.h"
#include "common/kv/layout.h"
#include "common/model/config.h"
#include "common/worker/grammar_reader.h"

namespace baton {

// Reads the parts of `spec` that an engine with these limits needs; `on_event` stays at its
// default. Checks every field, and that an engine of these limits can ever run the sequence: no
// other way leads a request to an engine. INVALID_ARGUMENT names all fields that are wrong, as
// "sequence.sampling.top_p". max_tokens and seed must be set: the router fixes every default.
// Errors of the grammar are those of GrammarReader::Read; without `grammars` one is
// FAILED_PRECONDITION.
absl::StatusOr<CheckedSequence> SequenceFromProto(const internal::v1::SequenceSpec& spec,
                                                  const EngineLimits& limits,
                                                  SequenceRequest::Mode mode,
                                                  const GrammarReader* grammars);

// The token's bytes are left empty: the detokeniser fills them.
internal::v1::OutputToken OutputTokenToProto(const OutputToken& token, int choice);
// In as many messages as their bound asks for.
std::vector<internal::v1::PromptLogprobs> PromptLogprobsToProto(const PromptScored& scored);
absl::StatusOr<OutputToken> OutputTokenFromProto(const internal::v1::OutputToken& token,
                                                 int vocab_size);
v1::FinishReason FinishReasonToProto(FinishReason reason);

// The digests are SHA-256 (ModelRuntime).
internal::v1::ModelIdentity MakeIdentity(const std::string& weights_digest,
                                         const std::string& tokenizer_digest,
                                         const ModelConfig& config);
// `numerics`: backend, mode and KV type. wire_dtypes: the KV type itself. layer_states: see
// SetLayerStates.
internal::v1::KvShape ShapeFromLayout(const KvLayout& layout, const std::string& numerics);

}  // namespace baton
