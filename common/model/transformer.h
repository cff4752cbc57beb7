// The model's mathematics: tokens and KV cache in, logits and more KV cache out.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/backend/backend.h"
#include "common/gguf/gguf_file.h"
#include "common/kv/cache.h"
#include "common/model/batch.h"
#include "common/model/config.h"
#include "common/model/weights.h"

namespace baton {

// Thread rule: one thread at a time. Borrows the backend, which must outlive it; keeps nothing of
// the file.
class Transformer {
 public:
  // Called with 0..1 while the weights load.
  using Progress = absl::FunctionRef<void(double)>;
  static absl::StatusOr<std::unique_ptr<Transformer>> Load(const GgufFile& file, Backend& backend,
                                                           Progress progress);
  ~Transformer();

  const ModelConfig& config() const;
  // In the backend's memory; for measurements.
  const ModelWeights& weights() const;
  // Shape of the KV cache it needs.
  KvLayout MakeKvLayout(int block_size, KvDtype dtype) const;

  // Takes the memory for passes of up to `max_rows` rows now. RESOURCE_EXHAUSTED when there is not
  // as much. A larger pass takes it when it comes, and ends the process if it cannot.
  absl::Status Reserve(int max_rows);

  // Asks the backend for a pass over all rows of `batch`, which appends their K and V to `cache`.
  // `on_layer(l)` runs on the calling thread as soon as layer l's K and V of all rows are in the
  // cache; where the host cannot read the cache (host_memory()), as soon as the operations that put
  // them there are asked for, so that whatever the backend is asked for next finds them.
  // `on_logits(i, logits)` runs as soon as those of batch.logits_rows[i] and following are asked
  // for: [at most 64, vocab_size] in the backend's memory, until the next ones take their place.
  // `recordings`, which may be null, serves a pass of one row for each sequence whose logits are
  // all wanted: where it replays one, the operations of on_logits are repeated without a call, and
  // on_layer comes for all layers at the end. `logits` may have rows of padding then, behind all
  // others. Nothing is borrowed any longer when it returns. The result for a row depends on its
  // sequence's tokens only (on the CPU bit for bit), never on the rest of the batch
  // (docs/architecture.md, numerics). REQUIRES: token ids in the vocabulary, block tables long
  // enough, positions below context_length; a recorded pass's rows are reserved.
  void Enqueue(const Batch& batch, KvCache& cache, PassRecordings* recordings,
               absl::FunctionRef<void(int)> on_layer,
               absl::FunctionRef<void(int, Tensor)> on_logits);
  // The same, and waits for it. Writes `logits` [logits_rows, vocab_size].
  void Forward(const Batch& batch, KvCache& cache, absl::FunctionRef<void(int)> on_layer,
               absl::Span<float> logits);

 private:
  struct Rep;
  explicit Transformer(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
