// Runs the largest step of an engine once before the engine starts, so that the scratch memory of
// its steps is taken before the KV cache gets the rest. The scratch is kept.
#pragma once

#include "absl/status/status.h"

#include "common/engine/engine.h"
#include "common/kv/layout.h"
#include "common/model/transformer.h"

namespace baton {

// Rows of the largest step: max_num_batched_tokens, or max_num_seqs decodes and one prefill chunk
// if that is more.
int LargestStepRows(const EngineOptions& options);

// The most tokens that a step samples, padding not counted: one for each sequence. All choices of a
// sequence sample their first tokens in one step.
int MostSamples(const EngineOptions& options);

// Options of the sampler of an engine's steps. `max_rows`: rows of a pass of max_num_seqs decodes,
// with the padding of the backend's recordings (PassRecordings::PassRows).
StepSamplerOptions SamplerOptionsOf(const EngineOptions& options, const ModelConfig& config,
                                    int max_rows);

// Runs a step of LargestStepRows rows: max_num_seqs sequences, with the logits of up to
// kLogitsRows of them. Then it runs a step of a single row, which uses other kernels. Both use a KV
// cache that exists only meanwhile. RESOURCE_EXHAUSTED where memory lacks. Thread rule: the
// model's.
absl::Status RunLargestStep(const EngineOptions& options, Transformer& model, Backend& backend);

}  // namespace baton
