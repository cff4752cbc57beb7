// A model with its backend and one sequence's cache, driven by hand.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/backend/make_backend.h"
#include "common/kv/cache.h"
#include "common/model/transformer.h"

namespace baton {

// The model file that BATON_TEST_MODEL names; empty when it names none.
std::string TestModelPath();

struct ModelRunnerOptions {
  std::string path;
  BackendOptions backend = {.device = "cpu", .threads = 2};
  int block_size = 32;
  KvDtype kv_dtype = KvDtype::kF16;
  int max_tokens = 512;  // room in the cache, over all sequences
};

// Ends the process where something cannot be loaded: a test has no use for the status.
class ModelRunner {
 public:
  explicit ModelRunner(const ModelRunnerOptions& options);

  Transformer& transformer() { return *transformer_; }
  KvCache& cache() { return *cache_; }
  int vocab_size() const { return transformer_->config().vocab_size; }

  // A new sequence; its blocks come from the cache's free ones, in an order that is not ascending.
  int AddSequence();
  // Tokens of a sequence that are in the cache.
  int length(int sequence) const { return lengths_[static_cast<size_t>(sequence)]; }

  struct Rows {
    int sequence;
    std::vector<int32_t> tokens;
  };
  // One pass that appends each entry's tokens to its sequence: the logits of all rows, [rows,
  // vocab_size].
  std::vector<float> Forward(const std::vector<Rows>& rows);
  // The logits of the last row only, [vocab_size].
  std::vector<float> Append(int sequence, const std::vector<int32_t>& tokens);
  // All K and V bytes of a sequence, by layer, part and token.
  std::vector<uint8_t> KvBytes(int sequence) const;

 private:
  std::vector<float> Run(const std::vector<Rows>& rows, bool all_logits);

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<KvCache> cache_;
  std::vector<int32_t> free_blocks_;
  std::vector<std::vector<int32_t>> block_tables_;  // by sequence
  std::vector<int> lengths_;                        // by sequence
};

// The index of the largest value; the lower one of equals.
int ArgMax(const float* values, int count);
// The natural logarithms of the softmax of `logits`, in double.
std::vector<double> LogSoftmax(const float* logits, int count);

}  // namespace baton
