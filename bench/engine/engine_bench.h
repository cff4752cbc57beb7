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
  int max_num_batched_tokens = 512;  // most tokens of one prefill pass
};

// Operands of Products, in the backend's memory.
struct ProductBuffers {
  Tensor residual;                    // [rows, width]
  Tensor projected;                   // [rows, width]
  Tensor attended;                    // [rows, heads * head_dim]
  Tensor queries;                     // [rows, heads * head_dim]
  Tensor keys;                        // [rows, kv_heads * head_dim]
  Tensor values;                      // [rows, kv_heads * head_dim]
  Tensor gate;                        // [rows, dense_width]
  Tensor up;                          // [rows, dense_width]
  Tensor router;                      // [rows, experts]
  std::vector<BackendBuffer> memory;  // the memory that these tensors point into
};

// A loaded model with a KV cache, and timed passes over them. Not thread-safe. All prompts are the
// same pseudorandom tokens, and a pass does not depend on what was timed before it.
class EngineBench {
 public:
  // Loads the model at `path` and calls `progress` as Transformer::Load does. Errors name the file
  // or the flag.
  static absl::StatusOr<std::unique_ptr<EngineBench>> Load(const std::string& path,
                                                           const EngineBenchOptions& options,
                                                           Transformer::Progress progress);

  // Makes a KV cache for `sequences` sequences of `tokens` tokens each; the first sequence may have
  // `first_tokens`, if that is more. What was prepared before is lost. RESOURCE_EXHAUSTED if memory
  // is short. REQUIRES: both lengths are within the model's context.
  absl::Status Reserve(int first_tokens, int tokens, int sequences);

  // Puts `depth` tokens into the KV cache of each of the first `sequences` sequences, and calls
  // `tick` after each chunk. REQUIRES, here and below: Reserve made room for all tokens.
  void Prepare(int depth, int sequences, absl::FunctionRef<void()> tick);
  // Computes `tokens` more tokens of the first sequence, in the chunks that the scheduler would
  // make, and the logits of the last token. Returns the time that it took.
  absl::Duration Prefill(int tokens);
  // Decodes all prepared sequences together for `steps` steps with greedy sampling, enqueued as an
  // engine enqueues them: on a device a step starts before the sampled tokens of the last step are
  // known. Returns the time that it took.
  absl::Duration Decode(int steps);
  // Computes the matrix products of the layers with the rows of `buffers`, each layer's weights
  // once. Computes as many layers as make about 100 GOP and returns their time, scaled to all
  // layers of the model. All layers multiply the same inputs, so quantising the inputs takes next
  // to no time.
  absl::Duration Products(const ProductBuffers& buffers);
  absl::StatusOr<ProductBuffers> MakeProductBuffers(int rows);

  // The least work for one token in Prefill, Decode and Products.
  BenchWork PrefillWork(int tokens) const;
  BenchWork DecodeWork(int depth, int steps, int sequences) const;
  BenchWork ProductsWork() const;

  const ModelConfig& config() const { return model_->config(); }
  GgmlType weights_type() const { return weights_type_; }  // weight type with the most bytes
  size_t model_bytes() const { return model_bytes_; }      // bytes of the tensors in the file
  size_t repacked_bytes() const;                           // bytes of the matrices in memory
  size_t kv_bytes_per_token() const;                       // bytes of all layers' KV of a token
  const Backend& backend() const { return *backend_; }

 private:
  // Multiplications and additions of the matrix products for one row, by the type of the weights.
  struct RowOps {
    double int8 = 0;
    double f32 = 0;
  };

  EngineBench(const GgufFile& file, const EngineBenchOptions& options,
              std::unique_ptr<Backend> backend, std::unique_ptr<Transformer> model);

  // Computes the prompt's tokens [first_position, end) of the first sequence.
  void RunPrompt(int first_position, int end, bool want_logits, absl::FunctionRef<void()> tick);
  int ChunkEnd(int first_position, int end) const;
  // The number of layers that Products computes, at least one.
  int ProductLayers(int rows) const;
  // Bytes of the weights that a pass reads at least: all matrices of the layers, but of experts
  // only those that a single row uses, and the head.
  double WeightBytesPerPass() const;

  const EngineBenchOptions options_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Transformer> model_;
  std::unique_ptr<KvCache> cache_;
  GgmlType weights_type_ = GgmlType::kF32;
  size_t model_bytes_ = 0;
  RowOps layers_ops_;                               // operations of all layers together
  RowOps head_ops_;                                 // operations of the output head
  std::vector<std::vector<int32_t>> block_tables_;  // by sequence
  int depth_ = 0;                                   // tokens of each prepared sequence
  int sequences_ = 0;                               // number of prepared sequences
  int prompt_in_cache_ = 0;  // tokens of the prompt that the first sequence's blocks still hold
  std::vector<float> logits_;
  std::unique_ptr<StepSampler> sampler_;  // for as many rows as the recordings pad a pass to
  std::unique_ptr<PassRecordings> recordings_;
};

}  // namespace baton
