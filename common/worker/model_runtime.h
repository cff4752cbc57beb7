// Makes a model file ready to run: backend, weights, KV cache, engine and tokenizer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "common/backend/backend.h"
#include "common/engine/engine.h"
#include "common/tokenizer/tokenizer.h"

namespace baton {

// The flags of a worker that concern the model; each field has the name of its flag
// (kv_cache_dtype: --kv-cache-dtype).
struct ModelRuntimeOptions {
  std::string model;                    // path of a GGUF file
  std::string device = "auto";          // cpu, cuda, cuda:N, auto
  int threads = 0;                      // 0: one for each CPU it may run on
  std::string cpu_set;                  // "0-3,8"
  std::string cpu_isa = "auto";         // auto, avx512, avx2, portable
  bool deterministic = false;           // CUDA: see BackendOptions::deterministic
  int block_size = 32;                  // tokens of a KV block
  std::string kv_cache_dtype = "auto";  // f16, f32, bf16, int8, fp8; auto is f16
  uint64_t kv_cache_memory_bytes = 0;   // 0: num_kv_blocks or the default decides
  double gpu_memory_utilization = 0.9;  // fraction of a GPU's memory that this process may take
  int num_kv_blocks = 0;                // 0: kv_cache_memory_bytes or the default decides
  int max_model_len = 0;  // tokens; 0: the model's context, or what the cache holds if that is less
  int max_num_seqs = 64;  // sequences in one step
  int max_num_batched_tokens = 512;  // rows of one step
  bool enable_prefix_caching = true;
  int max_waiting = 1024;  // sequences submitted and not admitted
  // Called with the fraction done, 0 to 1, while the weights load.
  std::function<void(double)> progress = nullptr;
};

// Thread rule: immutable except the engine, which has a thread rule of its own.
struct ModelRuntime {
  std::unique_ptr<Backend> backend;  // outlives the engine
  std::unique_ptr<Tokenizer> tokenizer;
  std::string name;              // the file's general.name; without one the file's own name
  std::string weights_type;      // the type that most bytes of the weights have, such as "Q4_1"
  std::string weights_digest;    // SHA-256 of the file, 32 bytes
  std::string tokenizer_digest;  // Tokenizer::digest; the router compares it with its own
  std::unique_ptr<Engine> engine;
};

// Loads the model file and makes its engine. Without num_kv_blocks and kv_cache_memory_bytes the
// size of the KV cache is, in the host's memory, 1 GiB, or room for two sequences of the longest
// length if that is more, but at most a quarter of the free memory. In a device's memory it is what
// gpu_memory_utilization leaves once the weights are loaded and the largest step has been run
// (device_memory.h). Errors name the file or the flag, and the remedy. A model whose file shows
// that it does not fit a device is refused before it is loaded.
absl::StatusOr<std::unique_ptr<ModelRuntime>> LoadModelRuntime(const ModelRuntimeOptions& options);

// What can be said of a model before a backend is there: that the file is whole, its architecture
// and its tokenizer are supported, and the options fit it and each other. Reads the metadata, no
// weights. Errors are LoadModelRuntime's.
absl::Status CheckModel(const ModelRuntimeOptions& options);

// The KV type of that name; "auto" is f16. INVALID_ARGUMENT names --kv-cache-dtype and its values.
absl::StatusOr<KvType> ParseKvType(const std::string& name);

// The number of blocks that the options give a KV cache in the host's memory. `free_memory_bytes`
// 0: unknown. RESOURCE_EXHAUSTED when they are fewer than two (one to begin with and one of
// head-room).
absl::StatusOr<int> KvBlockCount(const ModelRuntimeOptions& options, const KvLayout& layout,
                                 int max_model_len, uint64_t free_memory_bytes);

}  // namespace baton
