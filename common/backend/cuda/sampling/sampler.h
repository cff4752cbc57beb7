// The sampler on the device. From the same logits it samples the same token, with the same
// logprobs, as the CPU's sampler (common/backend/cpu/sampling/sampler.h states the order of the
// steps). Sums are of integers and every order is total, so neither the cut of the work nor the
// order in which threads arrive can show in a result.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace baton {

inline constexpr int kMaxTopLogprobs = 20;

// A number that is added to one token's logit.
struct LogitBias {
  int32_t token_id = 0;
  float bias = 0;
  bool operator==(const LogitBias&) const = default;
};

// One entry of TokenCounts (common/backend/token_counts.h).
struct TokenCount {
  int32_t token_id = 0;
  int32_t output_count = 0;  // occurrences in the output; 0: the token is in the prompt only
};

// How one row's token is sampled: fields and ranges are those of SamplingParams. Lists, which have
// no fixed size, lie in SamplerBatch.
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
  int32_t choice = 0;         // index among the n outputs of the request
  int32_t output_index = 0;   // 0 is the first token after the prompt
  int32_t top_logprobs = -1;  // -1: none; 0: the sampled token's logprob; N: also the top N tokens'
  int32_t first_bias = 0;     // index in SamplerBatch::biases; the tokens there are distinct
  int32_t bias_count = 0;
  int32_t first_stop_id = 0;  // index in SamplerBatch::stop_ids
  int32_t stop_id_count = 0;
  int32_t counts_slot = -1;   // slot of the sequence's token counts; -1: no penalty is set
  int32_t masked = 0;         // 1: SamplerBatch::masks says which tokens may come
  int32_t scored_token = -1;  // not -1: this token counts as sampled, and the row is not edited
  bool operator==(const SamplerRow&) const = default;
};

enum class SamplerError : int32_t {
  kNone = 0,
  kLogitNotFinite = 1,
  kAllMasked = 2,   // no token may come next
  kCountsFull = 3,  // the slot is full: the token is right, the next one's penalties would not be
};

struct SamplerLogprobs {
  float logprob = 0;  // the sampled token's
  int32_t top_count = 0;
  int32_t top_token_ids[kMaxTopLogprobs] = {};  // descending logprob; ties by ascending id
  float top_logprobs[kMaxTopLogprobs] = {};     // logprobs of top_token_ids
};

// How a row is cut into thread blocks and threads. No result depends on it.
struct SamplerShape {
  int slice_tokens = 4096;  // tokens of the vocabulary per block, while there are at most 64 slices
  int slice_threads = 256;  // threads for a slice; a multiple of 32, at most 1024
  int row_threads = 1024;   // threads for a row; a multiple of 32, at most 1024
};

// The rows of one launch. All arrays are in device memory, borrowed, at addresses that stay, so
// that a captured launch may be replayed with other contents. No two rows of a batch name the same
// slot.
struct SamplerBatch {
  int rows = 0;                   // at least one
  int vocab_size = 0;             // at most 2^22
  const float* logits = nullptr;  // [rows, vocab_size]
  SamplerRow* params = nullptr;   // [rows]; each becomes its sequence's next one: output_index + 1
  const LogitBias* biases = nullptr;  // biases of all rows
  const int32_t* stop_ids = nullptr;  // stop ids of all rows
  const int32_t* end_ids = nullptr;   // [end_id_count]; the model's end-of-generation ids
  int end_id_count = 0;
  const uint32_t* masks = nullptr;      // [rows, MaskWords(vocab_size)]; read for masked rows alone
  int counts_capacity = 0;              // tokens per slot
  TokenCount* counts = nullptr;         // [slots, counts_capacity]; the sampled token is added
  int32_t* count_sizes = nullptr;       // [slots]; entries of each slot in use
  void* scratch = nullptr;              // SamplerScratchBytes, at a multiple of 16 bytes
  int32_t* token_ids = nullptr;         // [rows], out: the sampled tokens; 0 if there is an error
  SamplerError* errors = nullptr;       // [rows], out
  SamplerLogprobs* logprobs = nullptr;  // [rows], out; only for rows that ask for logprobs
};

// Bytes of scratch memory for a batch of `rows` rows.
size_t SamplerScratchBytes(int rows, int vocab_size);

// Samples all rows of the batch; asynchronous. Always three launches on `stream`, so that a graph
// fits any rows.
void LaunchSample(const SamplerBatch& batch, const SamplerShape& shape, cudaStream_t stream);

}  // namespace baton
