// A smaller model that guesses what a larger one of the same vocabulary will say.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/backend/backend.h"
#include "common/backend/batch.h"
#include "common/engine/draft_kv.h"
#include "common/kv/block_pool.h"
#include "common/kv/cache.h"
#include "common/model/transformer.h"

namespace baton {

// Proposes the likeliest next tokens of many sequences at once. It computes K and V of their tokens
// itself, in a cache of its own: it takes part in no hand-off, and shares no prefix. A sequence
// takes blocks as its tokens come, and those who ask first get them. If no block is free, or the
// model's context ends, nothing is proposed.
//
// What it proposes for a sequence depends on the tokens of that sequence and on how many of them it
// knows. It is a guess: nothing but speed depends on it.
//
// Thread rule: one thread, the engine's. Borrows the backend.
class DraftModel {
 public:
  struct Options {
    int block_size = 0;  // tokens of a block
    int num_blocks = 0;  // blocks of the cache, each of all layers
    KvType kv_dtype = KvType::kF16;
    int most_sequences = 0;  // for which tokens are proposed at once
  };
  // RESOURCE_EXHAUSTED says which memory lacks. REQUIRES: the KV type takes the model's heads; a
  // valid block size.
  static absl::StatusOr<std::unique_ptr<DraftModel>> Create(std::unique_ptr<Transformer> model,
                                                            Backend& backend,
                                                            const Options& options);

  // One sequence.
  struct Order {
    DraftKv* kv = nullptr;
    absl::Span<const int32_t> tokens = {};  // all tokens of the sequence, at least one
    int most = 0;                           // how many to propose; 0: only catch up
    std::vector<int32_t> proposed = {};     // the answer: empty until it has caught up
  };
  // Computes the tokens that it does not know yet, and where it knows all of them then, proposes.
  // To catch up it takes `spare_rows` rows at most, and never more than kChunkTokens, for all
  // orders together, the first ones first, beside one row for each order that asks for a proposal.
  // Each pass behind that one has a row for each sequence that it proposes for. Returns how many
  // rows it computed. REQUIRES: no two orders have the same kv.
  int Propose(absl::Span<Order> orders, int spare_rows);

  const KvCache& cache() const { return *cache_; }
  int used_blocks() const { return pool_.used_blocks(); }

 private:
  struct Pass {
    Batch batch;
    std::vector<Order*> proposing;  // [logits rows]
  };

  DraftModel(std::unique_ptr<Transformer> model, std::unique_ptr<KvCache> cache);
  void AddMissing(Order& order, int& spare_rows, Pass& pass);
  int TakeRoom(DraftKv& kv, int wanted);
  void AddRows(Order& order, absl::Span<const int32_t> tokens, bool proposes, Pass& pass);
  void Compute(const Pass& pass);

  const std::unique_ptr<Transformer> model_;
  const std::unique_ptr<KvCache> cache_;
  BlockPool pool_;
  std::vector<float> logits_;  // [logits rows, vocab_size]
};

}  // namespace baton
