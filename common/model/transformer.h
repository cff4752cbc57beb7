// Computes the model: from tokens and KV cache to logits and more KV cache.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/backend/backend.h"
#include "common/backend/batch.h"
#include "common/gguf/gguf_file.h"
#include "common/kv/cache.h"
#include "common/model/config.h"
#include "common/model/weights.h"

namespace baton {

// The most rows of logits that are computed together: it bounds the memory of a pass.
inline constexpr int kLogitsRows = 64;

// Thread rule: one thread at a time. Borrows the backend, which must outlive it. Keeps nothing of
// the file.
class Transformer {
 public:
  // Called with the fraction done, 0 to 1, while the weights load.
  using Progress = absl::FunctionRef<void(double)>;
  // Loads the model of the file, for sequences of up to `max_model_len` tokens (see
  // ModelConfig::FromGguf). Errors are those of ModelConfig::FromGguf and ModelWeights::Load.
  static absl::StatusOr<std::unique_ptr<Transformer>> Load(const GgufFile& file, Backend& backend,
                                                           Progress progress,
                                                           int max_model_len = 0);
  ~Transformer();

  const ModelConfig& config() const;
  // The weights in the backend's memory; for measurements.
  const ModelWeights& weights() const;
  // The layout of the KV cache that the model needs.
  KvLayout MakeKvLayout(int block_size, KvType dtype) const;

  // Takes the memory for passes of up to `max_rows` rows now. RESOURCE_EXHAUSTED when there is not
  // as much. A larger pass takes its memory when it comes, and ends the process if it cannot.
  absl::Status Reserve(int max_rows);

  // Enqueues a pass over all rows of `batch`, which appends their K and V to `cache`. It borrows
  // nothing after it has returned.
  //
  // `on_layer(l)` runs on the calling thread when K and V of all rows are in layer l of the cache.
  // If the host cannot read the cache (host_memory()), it runs when the operations that put them
  // there are enqueued: operations that are enqueued later find them.
  //
  // `on_logits(i, logits)` runs when the logits of batch.logits_rows[i] and the rows after it are
  // enqueued. `logits` [at most kLogitsRows, vocab_size] is in the backend's memory, and holds
  // until the next logits take its place.
  //
  // `recordings`, which may be null, serves a pass that has one row for each sequence and wants the
  // logits of all. Where it replays a recorded pass, it repeats the operations of on_logits without
  // calling it, and on_layer runs for all layers at the end. `logits` of a recorded pass may end
  // with rows of padding.
  //
  // The result of a row depends on the tokens of its sequence only (on the CPU bit for bit), never
  // on the rest of the batch (docs/numerics.md). REQUIRES: token ids are in the
  // vocabulary, block tables are long enough, positions are below context_length; the rows of a
  // recorded pass are reserved.
  void Enqueue(const Batch& batch, KvCache& cache, PassRecordings* recordings,
               absl::FunctionRef<void(int)> on_layer,
               absl::FunctionRef<void(int, Tensor)> on_logits);
  // Runs a pass and waits for it. Writes `logits` [logits_rows, vocab_size]. `on_layer` and
  // REQUIRES: see Enqueue.
  void Forward(const Batch& batch, KvCache& cache, absl::FunctionRef<void(int)> on_layer,
               absl::Span<float> logits);

 private:
  struct Rep;
  explicit Transformer(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
