// The passes that `baton bench engine` times: a model over a paged KV cache, without a server.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "bench/engine/bench_report.h"
#include "common/backend/make_backend.h"
#include "common/gguf/gguf_file.h"
#include "common/kv/cache.h"
#include "common/model/transformer.h"

namespace baton {

struct EngineBenchOptions {
  BackendOptions backend;
  int block_size = 32;  // tokens
  KvType kv_dtype = KvType::kF16;
  int max_num_batched_tokens = 512;  // rows of one prefill pass
};

// The operands of Products.
struct ProductBuffers {
  Tensor residual;   // [rows, width]
  Tensor projected;  // [rows, width]
  Tensor attended;   // [rows, heads * head_dim]
  Tensor queries;    // [rows, heads * head_dim]
  Tensor keys;       // [rows, kv_heads * head_dim]
  Tensor values;     // [rows, kv_heads * head_dim]
  Tensor gate;       // [rows, feed_forward_width]
  Tensor up;         // [rows, feed_forward_width]
  std::vector<BackendBuffer> memory;
};

// Thread rule: one thread. Prompts are the same random tokens each time; what a pass computes does
// not depend on what was timed before.
class EngineBench {
 public:
  // Errors name file or flag. `progress` as in Transformer::Load.
  static absl::StatusOr<std::unique_ptr<EngineBench>> Load(const std::string& path,
                                                           const EngineBenchOptions& options,
                                                           Transformer::Progress progress);

  // Makes room in the cache for `sequences` sequences of `tokens` tokens, the first of them
  // `first_tokens` if that is more; what was prepared is gone. RESOURCE_EXHAUSTED where memory
  // lacks. REQUIRES: both within the model's context.
  absl::Status Reserve(int first_tokens, int tokens, int sequences);

  // Puts `depth` tokens into the cache of the first `sequences` sequences. `tick` is called after
  // each chunk. REQUIRES, here and below: room for all tokens.
  void Prepare(int depth, int sequences, absl::FunctionRef<void()> tick);
  // Computes `tokens` more tokens of the first sequence, in chunks as the scheduler cuts them, and
  // the logits of the last one.
  absl::Duration Prefill(int tokens);
  // `steps` steps of all prepared sequences together, each to the likeliest next tokens; as an
  // engine asks for them: on a device the next one before the last one's tokens are known.
  absl::Duration Decode(int steps);
  // The products of all layers over the buffers' rows, each layer's weights once. Computes as many
  // layers as make about 100 GOP, and scales their time to all layers of the model. The layers
  // multiply the same inputs, so quantising these is next to nothing.
  absl::Duration Products(const ProductBuffers& buffers);
  absl::StatusOr<ProductBuffers> MakeProductBuffers(int rows);

  // What they take at least, per token.
  BenchWork PrefillWork(int tokens) const;
  BenchWork DecodeWork(int depth, int steps, int sequences) const;
  BenchWork ProductsWork() const;

  const ModelConfig& config() const { return model_->config(); }
  GgmlType weights_type() const { return weights_type_; }  // of most bytes
  size_t model_bytes() const { return model_bytes_; }      // of the tensors in the file
  size_t repacked_bytes() const;                           // of the matrices in memory
  const Backend& backend() const { return *backend_; }

 private:
  // Multiplications and additions of a row's products.
  struct RowOps {
    double int8 = 0;
    double f32 = 0;
  };

  EngineBench(const GgufFile& file, const EngineBenchOptions& options,
              std::unique_ptr<Backend> backend, std::unique_ptr<Transformer> model);

  // Computes the prompt's tokens [first_position, end) of the first sequence.
  void RunPrompt(int first_position, int end, bool want_logits, absl::FunctionRef<void()> tick);
  int ChunkEnd(int first_position, int end) const;
  // How many layers Products computes: at least one.
  int ProductLayers(int rows) const;
  // Bytes of all matrices of the layers, and the head.
  size_t WeightBytesPerPass() const;

  const EngineBenchOptions options_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Transformer> model_;
  std::unique_ptr<KvCache> cache_;
  GgmlType weights_type_ = GgmlType::kF32;
  size_t model_bytes_ = 0;
  RowOps layers_ops_;  // of all layers
  RowOps head_ops_;
  std::vector<std::vector<int32_t>> block_tables_;  // by sequence
  int depth_ = 0;                                   // tokens of each prepared sequence
  int sequences_ = 0;                               // prepared
  int prompt_in_cache_ = 0;  // tokens of the first sequence that are the prompt's
  std::vector<float> logits_;
  std::unique_ptr<StepSampler> sampler_;  // of `sequences` rows, as the recordings
  std::unique_ptr<PassRecordings> recordings_;
};

}  // namespace baton
