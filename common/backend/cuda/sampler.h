// The sampler on the device: from the same logits the very token, and the very logprobs, that the
// CPU's sampler (common/backend/cpu/sampler.h, which states the order of the steps) chooses. Sums
// are of integers and every order is total, so neither how the work is cut nor which thread comes
// first can show in a result.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace baton {

inline constexpr int kMaxTopLogprobs = 20;

// What is added to one token's logit.
struct LogitBias {
  int32_t token_id = 0;
  float bias = 0;
};

// One entry of common/backend/token_counts.h: 0 for a token that is in the prompt only.
struct TokenCount {
  int32_t token_id = 0;
  int32_t output_count = 0;
};

// How one row's token is chosen. As in SamplingParams, whose ranges hold; what has no fixed size
// lies in the batch's lists.
struct SamplerRow {
  float temperature = 0;
  float top_p = 1;
  int32_t top_k = 0;
  float min_p = 0;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  float repetition_penalty = 1;
  int32_t min_tokens = 0;
  uint64_t seed = 0;
  int32_t choice = 0;
  int32_t output_index = 0;
  int32_t top_logprobs = -1;  // -1: no logprobs; 0: of the chosen token; N: and of the top N
  int32_t first_bias = 0;     // in SamplerBatch::biases; distinct tokens
  int32_t bias_count = 0;
  int32_t first_stop_id = 0;  // in SamplerBatch::stop_ids
  int32_t stop_id_count = 0;
  int32_t counts_slot = -1;  // of the sequence's token counts; -1: no penalty is set
};

enum class SamplerError : int32_t {
  kNone = 0,
  kLogitNotFinite = 1,
  kAllMasked = 2,   // stop and end tokens are the whole vocabulary
  kCountsFull = 3,  // the token is right, the next one's penalties would not be
};

struct SamplerLogprobs {
  float logprob = 0;  // of the chosen token
  int32_t top_count = 0;
  int32_t top_token_ids[kMaxTopLogprobs] = {};  // descending logprob; ties by ascending id
  float top_logprobs[kMaxTopLogprobs] = {};
};

// How a row is cut into blocks and threads. No result depends on it.
struct SamplerShape {
  int slice_tokens = 4096;  // of the vocabulary, per block, while there are at most 64 slices
  int slice_threads = 256;  // multiples of 32, at most 1024
  int row_threads = 1024;
};

// All of it in device memory, borrowed, at addresses that stay: a captured launch may be replayed
// with other contents. Rows of one batch name different slots.
struct SamplerBatch {
  int rows = 0;                        // at least one
  int vocab_size = 0;                  // at most 2^22
  const float* logits = nullptr;       // [rows, vocab_size]
  const SamplerRow* params = nullptr;  // [rows]
  const LogitBias* biases = nullptr;   // of all rows
  const int32_t* stop_ids = nullptr;   // of all rows
  const int32_t* end_ids = nullptr;    // [end_id_count]; of the model
  int end_id_count = 0;
  int counts_capacity = 0;              // tokens per slot
  TokenCount* counts = nullptr;         // [slots, counts_capacity]; gains the chosen token
  int32_t* count_sizes = nullptr;       // [slots]; entries of counts in use
  void* scratch = nullptr;              // SamplerScratchBytes, at a multiple of 16 bytes
  int32_t* token_ids = nullptr;         // [rows], out; 0, and not to be used, with an error
  SamplerError* errors = nullptr;       // [rows], out
  SamplerLogprobs* logprobs = nullptr;  // [rows], out; only where asked for
};

size_t SamplerScratchBytes(int rows, int vocab_size);

// Three launches on `stream`, whatever the rows ask for.
void LaunchSample(const SamplerBatch& batch, const SamplerShape& shape, cudaStream_t stream);

}  // namespace baton
