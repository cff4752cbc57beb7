// Samples the next tokens of a step's rows where their logits are: in the backend's memory.
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
  int max_rows = 0;                                 // rows of a step
  int max_model_len = 0;                            // tokens of a sequence, prompt and output
};

// The sequence whose next token is sampled, and how. Borrowed from Begin to End.
struct SamplingRow {
  // Names the sequence for ever. No two rows of a step have the same, but those behind guesses.
  uint64_t sequence = 0;
  // Whether `counts` holds guesses of outputs. Nothing of the row is kept for the sequence then.
  bool behind_guess = false;
  const SamplingParams* sampling = nullptr;
  // Counts of the tokens before output_index, without the one of `pending_row`.
  const TokenCounts* counts = nullptr;
  int choice = 0;        // index among the n outputs of the request
  int output_index = 0;  // 0 is the first token after the prompt
  // The row of the last step whose sampled token is the output before this one, where that step
  // has not been taken yet; -1: all outputs before this one are in `counts`.
  int pending_row = -1;
  // The tokens that may come next, [MaskWords(vocab_size)] (common/base/token_mask.h); null: all.
  // Sample reads it, so it may be filled after Begin, while the logits are computed; and a step
  // that has one is not replayed from a recording. The mask alone then says where the text may end:
  // min_tokens masks stop tokens, but none that end a generation.
  const uint32_t* mask = nullptr;
};

// A token that is known, whose log probability a row of logits gives.
struct ScoredToken {
  int32_t token_id = 0;
  int top_count = 0;  // number of most likely tokens that are reported as well
};

// The errors of a row that has no token.
absl::Status LogitNotFinite(int output_index);  // INTERNAL: a logit is infinite or a NaN
absl::Status AllMasked();                       // INVALID_ARGUMENT: no token may come next
absl::Status PromptLogitNotFinite();            // as LogitNotFinite, if a token is scored

// A step is Begin, then Sample for each of its rows and Score for any others, then End; between
// them come the operations that make the logits. Take returns the tokens of the oldest step that
// was not taken. So the next step may begin before the tokens of the last one are known, and read
// them as sampled_ids(). From the same logits every implementation samples the same tokens and
// logprobs; cpu/sampler.h says how.
//
// Thread rule: the backend's. At most backend.steps_ahead() + 1 steps wait to be taken.
class StepSampler {
 public:
  virtual ~StepSampler() = default;

  // Begins a step of `rows`, at most max_rows of them; there may be none.
  virtual void Begin(absl::Span<const SamplingRow> rows) = 0;
  // Row i of `logits` [rows, vocab_size] belongs to rows[first_row + i] of the step. This is an
  // operation of the backend: where those run later, so does this.
  virtual void Sample(int first_row, Tensor logits) = 0;
  // Row i of `logits` [tokens, vocab_size] gives the log probabilities of tokens[i]: the ones that
  // Sample would report if it had sampled that token. An operation of the backend like Sample.
  virtual void Score(absl::Span<const ScoredToken> tokens, Tensor logits) = 0;
  virtual void End() = 0;
  // Waits for the oldest step not taken and returns its tokens by row. LogitNotFinite and AllMasked
  // concern their own row alone. The caller sets finish_reason of the tokens.
  // REQUIRES: a step that was ended and not taken.
  virtual std::vector<absl::StatusOr<OutputToken>> Take() = 0;
  // What the step that was taken last has scored, in the order of Score. PromptLogitNotFinite
  // concerns its own token alone. REQUIRES: once, before the next Begin.
  virtual std::vector<absl::StatusOr<TokenLogprobs>> TakeScores() = 0;

  // The tokens sampled last, by row of their step: [max_rows], in the backend's memory, at an
  // address that stays. 0 if a row has no token.
  virtual const int32_t* sampled_ids() const = 0;
};

}  // namespace baton
