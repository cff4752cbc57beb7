// A model with its backend and its KV cache, for tests that run single passes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/backend/make_backend.h"
#include "common/kv/cache.h"
#include "common/model/transformer.h"

namespace baton {

// The path of the model file from BATON_TEST_MODEL; empty if the variable is not set.
std::string TestModelPath();

struct ModelRunnerOptions {
  std::string path;
  const GgufFile* file = nullptr;  // instead of `path`; only the constructor reads it
  BackendOptions backend = {.device = "cpu", .threads = 2};
  int block_size = 32;
  KvType kv_dtype = KvType::kF16;
  int max_tokens = 512;   // tokens that the cache has room for, over all sequences
  int max_model_len = 0;  // see Transformer::Load
};

// The status of loading a model, for tests whose models may not be supported.
absl::Status LoadStatus(const GgufFile& file);

// A model and its sequences. Not thread-safe. The constructor ends the process if something cannot
// be loaded. All bytes of the cache are NaNs at first, so that a read before the write shows.
class ModelRunner {
 public:
  explicit ModelRunner(const ModelRunnerOptions& options);

  Transformer& transformer() { return *transformer_; }
  KvCache& cache() { return *cache_; }
  int vocab_size() const { return transformer_->config().vocab_size; }

  // Adds an empty sequence and returns its number. It takes free blocks of the cache in an order
  // that is not ascending.
  int AddSequence();
  // Adds a sequence whose first `tokens` tokens are those of another, in the same blocks. REQUIRES:
  // `tokens` is a multiple of the block size; neither is released while the other is in use.
  int AddSequenceSharing(int other, int tokens);
  // Adds a sequence of `tokens` tokens whose K and V another runner computed; `kv` is its KvBytes.
  int AddSequenceWithKv(const std::vector<uint8_t>& kv, int tokens);
  // Gives the sequence's blocks back with their contents. The sequence then has no tokens.
  void Release(int sequence);
  // The number of tokens of a sequence in the cache.
  int length(int sequence) const { return lengths_[static_cast<size_t>(sequence)]; }

  struct Rows {
    int sequence;
    std::vector<int32_t> tokens;
  };
  // Runs one pass that appends each entry's tokens to its sequence. Returns the logits of all rows,
  // [rows, vocab_size].
  std::vector<float> Forward(const std::vector<Rows>& rows);
  // Appends tokens to one sequence and returns the logits of the last one only, [vocab_size].
  std::vector<float> Append(int sequence, const std::vector<int32_t>& tokens);
  // All bytes of a sequence's KV, by layer, then K and V, then token.
  std::vector<uint8_t> KvBytes(int sequence) const;

 private:
  std::vector<float> Run(const std::vector<Rows>& rows, bool all_logits);
  // Takes blocks until the sequence has those for `tokens` tokens.
  void Extend(int sequence, int tokens);
  // Calls visit(first byte, bytes) for each row of a sequence and its scales, if any: by layer,
  // then K and V, then token.
  template <class Visit>
  void ForEachRow(int sequence, const Visit& visit) const;

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<KvCache> cache_;
  std::vector<int32_t> free_blocks_;
  std::vector<std::vector<int32_t>> block_tables_;  // [sequences]
  std::vector<int> lengths_;                        // [sequences], tokens
};

// The index of the largest value; of equal values the lowest index.
int ArgMax(const float* values, int count);
// The natural logarithms of the softmax of `logits`, in double.
std::vector<double> LogSoftmax(const float* logits, int count);

}  // namespace baton
