// The steps that an engine runs before its first request. The largest one takes the scratch memory
// of steps, which is kept, before the KV cache gets the rest. Those of decodes are recorded.
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

// Options of the sampler of an engine's steps. `max_rows`: rows of a pass of max_num_seqs decodes,
// with the padding of the backend's recordings (PassRecordings::PassRows).
StepSamplerOptions SamplerOptionsOf(const EngineOptions& options, const ModelConfig& config,
                                    int max_rows);

// Runs a step of LargestStepRows rows: max_num_seqs sequences, with the logits of up to
// kLogitsRows of them. Then it runs steps of fewer decodes, in all numbers of rows that are
// recorded: they use other kernels, whose code takes memory too. All use a KV cache that exists only
// meanwhile. RESOURCE_EXHAUSTED where memory lacks. Thread rule: the model's.
absl::Status RunLargestStep(const EngineOptions& options, Transformer& model, Backend& backend);

// Records steps of every kind that decodes of the engine may have, so that none of its requests
// waits for that. Writes to the blocks of `cache`, of which none is in use yet. The others are the
// engine's too. Reads max_num_seqs, max_model_len and what says how many tokens the cache holds.
void RecordSteps(const EngineOptions& options, Transformer& model, KvCache& cache,
                 StepSampler& sampler, PassRecordings& recordings);

}  // namespace baton
