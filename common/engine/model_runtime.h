// A model file, ready to run: backend, weights, KV cache, engine and tokenizer, as the flags ask
// for them.
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

// Field by field the flags of a worker (--kv-cache-dtype and so on).
struct ModelRuntimeOptions {
  std::string model;                    // path of a GGUF file
  std::string device = "auto";          // cpu, cuda, cuda:N, auto
  int threads = 0;                      // 0: one for each CPU it may run on
  std::string cpu_set;                  // "0-3,8"
  std::string cpu_isa = "auto";         // auto, avx512, avx2, portable
  bool deterministic = false;           // CUDA: as BackendOptions
  int block_size = 32;                  // tokens
  std::string kv_cache_dtype = "auto";  // auto = f16; f32, bf16, int8, fp8
  uint64_t kv_cache_memory_bytes = 0;   // 0: by num_kv_blocks, or the default
  double gpu_memory_utilization = 0.9;  // part of a GPU's memory that this process may take
  int num_kv_blocks = 0;                // 0: by kv_cache_memory_bytes
  int max_model_len = 0;  // tokens; 0: the model's context, or what the cache holds if that is less
  int max_num_seqs = 64;
  int max_num_batched_tokens = 512;
  bool enable_prefix_caching = true;
  int max_waiting = 1024;
  // Called with 0..1 while the weights load.
  std::function<void(double)> progress = nullptr;
};

// Thread rule: immutable but for the engine, which has its own.
struct ModelRuntime {
  std::unique_ptr<Backend> backend;  // outlives the engine
  std::unique_ptr<Tokenizer> tokenizer;
  std::string name;              // general.name; else the file's name
  std::string weights_type;      // of most bytes, such as "Q4_1"
  std::string weights_digest;    // SHA-256 of the file, 32 bytes
  std::string tokenizer_digest;  // as the router computes it
  std::unique_ptr<Engine> engine;
};

// Without num_kv_blocks and kv_cache_memory_bytes the cache gets, in the host's memory, 1 GiB, or
// room for two sequences of the longest length if that is more, but never more than a quarter of
// the memory that is free; in a device's, what gpu_memory_utilization leaves once the weights are
// loaded and the largest step has been run (device_memory.h). Errors name file or flag, and the
// remedy; a model that does not fit is refused before it is loaded where its file tells.
absl::StatusOr<std::unique_ptr<ModelRuntime>> LoadModelRuntime(const ModelRuntimeOptions& options);

// "auto" is f16. INVALID_ARGUMENT names --kv-cache-dtype and its values.
absl::StatusOr<KvDtype> ParseKvDtype(const std::string& name);

// Blocks of a KV cache in the host's memory as the options say. RESOURCE_EXHAUSTED when they are
// fewer than two: one to begin with and one of head-room.
absl::StatusOr<int> KvBlockCount(const ModelRuntimeOptions& options, const KvLayout& layout,
                                 int max_model_len, uint64_t free_memory_bytes);

}  // namespace baton
