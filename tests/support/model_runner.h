// A model with its backend and its sequences' cache, driven by hand.
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
  const GgufFile* file = nullptr;  // instead of `path`; read while the runner is made
  BackendOptions backend = {.device = "cpu", .threads = 2};
  int block_size = 32;
  KvType kv_dtype = KvType::kF16;
  int max_tokens = 512;  // room in the cache, over all sequences
};

// What loading the model says, for tests whose models may not be supported.
absl::Status LoadStatus(const GgufFile& file);

// Ends the process where something cannot be loaded: a test has no use for the status. The cache's
// bytes are NaNs at first, so that nothing is read that was not written.
class ModelRunner {
 public:
  explicit ModelRunner(const ModelRunnerOptions& options);

  Transformer& transformer() { return *transformer_; }
  KvCache& cache() { return *cache_; }
  int vocab_size() const { return transformer_->config().vocab_size; }

  // A new sequence; its blocks come from the cache's free ones, in an order that is not ascending.
  int AddSequence();
  // A new sequence whose first `tokens` tokens are those of another, in the same blocks. REQUIRES:
  // `tokens` a multiple of the block size; Release neither before both are done with.
  int AddSequenceSharing(int other, int tokens);
  // A new sequence of `tokens` tokens whose K and V another runner computed: its KvBytes.
  int AddSequenceWithKv(const std::vector<uint8_t>& kv, int tokens);
  // Gives the sequence's blocks back, with what is in them; it is then of no tokens.
  void Release(int sequence);
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
  // Takes blocks until the sequence has those for `tokens` tokens.
  void Extend(int sequence, int tokens);
  // Calls visit(first byte, bytes) for each K and V row of a sequence, and for its scales where it
  // has them, by layer, part and token.
  template <class Visit>
  void ForEachRow(int sequence, const Visit& visit) const;

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
