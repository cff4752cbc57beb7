// The largest step of an engine, run once before it starts: what it takes of the device's memory
// is taken then, and stays.
#pragma once

#include "absl/status/status.h"

#include "common/engine/engine.h"
#include "common/kv/layout.h"
#include "common/model/transformer.h"

namespace baton {

// Rows of the largest step: the batch, and as many decodes leave a prefill at least one chunk.
int LargestStepRows(const EngineOptions& options);

// Of the sampler of an engine's steps; `max_rows` as the backend's recordings have them.
StepSamplerOptions SamplerOptionsOf(const EngineOptions& options, const ModelConfig& config,
                                    int max_rows);

// Runs a step of LargestStepRows rows, of max_num_seqs sequences with the logits of up to 64 of
// them, then one of a single row (whose kernels are others), over a cache of their own.
// RESOURCE_EXHAUSTED where memory lacks. The thread is the model's.
absl::Status RunLargestStep(const EngineOptions& options, Transformer& model, Backend& backend);

}  // namespace baton
