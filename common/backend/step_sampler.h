// Chooses the next tokens of a step's rows where their logits are: in the backend's memory.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/backend/sampling_params.h"
#include "common/backend/tensor.h"
#include "common/backend/token_counts.h"

namespace baton {

struct StepSamplerOptions {
  int vocab_size = 0;
  std::vector<int32_t> end_of_generation_ids = {};  // ascending
  int max_rows = 0;                                 // of a step
  int max_model_len = 0;                            // tokens of a sequence, prompt and output
};

// Whose token is chosen, and how. Borrowed from Begin to End.
struct SamplingRow {
  uint64_t sequence = 0;  // names it for ever; the rows of a step differ
  const SamplingParams* sampling = nullptr;
  // Of what is before output_index, but for the pending output.
  const TokenCounts* counts = nullptr;
  int choice = 0;
  int output_index = 0;
  // Which choice of the last step is the output before this one, where that step has not been taken
  // yet; -1: all outputs are known.
  int pending = -1;
};

// Why a row has no token.
absl::Status LogitNotFinite(int output_index);  // INTERNAL
absl::Status AllMasked();                       // INVALID_ARGUMENT: by min_tokens

// A step is Begin, Sample for each of its rows, and End; in between come the operations that make
// the logits. Take gives what the oldest step that was not taken has chosen: so the next step may
// begin before the last one's tokens are known, and read them as choices(). From the same logits
// every implementation chooses the same tokens and logprobs: cpu/sampler.h says how.
//
// Thread rule: the backend's. At most backend.steps_ahead() + 1 steps are not taken.
class StepSampler {
 public:
  virtual ~StepSampler() = default;

  // The rows of the step, at most max_rows; there may be none.
  virtual void Begin(absl::Span<const SamplingRow> rows) = 0;
  // Row i of `logits` is that of rows[first_row + i] of the step. An operation of the backend:
  // where these run later, so does this.
  virtual void Sample(int first_row, Tensor logits) = 0;
  virtual void End() = 0;
  // By row; waits for the step. LogitNotFinite and AllMasked are of that row alone. The tokens'
  // finish_reason is left to the caller. REQUIRES: a step that was ended and not taken.
  virtual std::vector<absl::StatusOr<OutputToken>> Take() = 0;

  // [max_rows], in the backend's memory, at an address that stays: what the rows sampled last have
  // chosen; 0 where a row has no token.
  virtual const int32_t* choices() const = 0;
};

}  // namespace baton
