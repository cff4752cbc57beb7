// The steps that an engine runs before its first request. The largest one allocates the scratch
// memory that all steps use, before the KV cache gets the rest. Decode steps are recorded.
#pragma once

#include "absl/status/status.h"

#include "common/backend/pass_recordings.h"
#include "common/backend/step_sampler.h"
#include "common/engine/engine.h"
#include "common/kv/cache.h"
#include "common/model/transformer.h"

namespace baton {

// Rows of the largest step: max_num_batched_tokens, or max_num_seqs decodes and one prefill chunk
// if that is more.
int LargestStepRows(const EngineOptions& options);

// The most tokens that a step samples, padding not counted: one for each sequence. All choices of a
// sequence sample their first tokens in one step.
int MostSamples(const EngineOptions& options);

// Returns the options of the engine's sampler. `max_rows`: rows of a pass of max_num_seqs decodes,
// with the padding of the backend's recordings (PassRecordings::PassRows).
StepSamplerOptions SamplerOptionsOf(const EngineOptions& options, const ModelConfig& config,
                                    int max_rows);

// Runs a step of LargestStepRows rows: max_num_seqs sequences, with the logits of up to kLogitsRows
// of them. Then runs decode steps with every number of rows that is recorded, because they use
// other kernels, whose code takes memory too. All steps use a temporary KV cache.
// RESOURCE_EXHAUSTED if memory is short. Thread rule: the model's.
absl::Status RunLargestStep(const EngineOptions& options, Transformer& model, Backend& backend);

// Records a step of every kind that the engine's decodes may have, so that no request waits for a
// recording. Writes to the blocks of `cache`; REQUIRES: none of them is in use yet. All arguments
// are the engine's own.
void RecordSteps(const EngineOptions& options, Transformer& model, KvCache& cache,
                 StepSampler& sampler, PassRecordings& recordings);

}  // namespace baton
