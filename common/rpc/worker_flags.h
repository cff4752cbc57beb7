// The flags of both workers.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/engine/engine.h"
#include "common/kv/staging.h"
#include "common/rpc/flags.h"
#include "common/rpc/server_flags.h"

namespace baton {

struct WorkerFlags {
  ServerFlags server;
  std::string model;                    // path of a GGUF file
  std::string served_model_name;        // empty: the file's own name
  std::string device = "auto";          // cpu, cuda, cuda:N, auto
  int threads = 0;                      // 0: one for each core in cpu_set, or of the machine
  std::string cpu_set;                  // "0-3,8": cores to stay on; empty: no binding
  std::string cpu_isa = "auto";         // auto, avx512, avx2, portable
  int block_size = 32;                  // tokens
  std::string kv_cache_dtype = "auto";  // auto = f16
  uint64_t kv_cache_memory_bytes = 0;   // 0: by num_kv_blocks, or a default
  int num_kv_blocks = 0;                // 0: by kv_cache_memory_bytes
  uint64_t kv_staging_memory_bytes = KvStaging::Options().bytes;  // of a GPU's worker
  int max_model_len = 0;                                          // tokens; 0: the model's context
  int max_num_seqs = 64;
  int max_num_batched_tokens = 512;
  bool enable_prefix_caching = true;
  double gpu_memory_utilization = 0.9;
  bool deterministic = false;
  int kv_connections = 2;
  std::string kv_wire_dtype = "auto";  // auto = the KV type; int8 is sent and taken only if asked
  bool strict_kv_dtype = false;
};

// How a model is computed: device, threads, cpu-set, cpu-isa, deterministic, block-size,
// kv-cache-dtype, max-num-batched-tokens.
void AddComputeFlags(FlagSet& flags, WorkerFlags& worker);
// All of them, those too.
void AddWorkerFlags(FlagSet& flags, WorkerFlags& worker);

// What can be said before the model is opened.
absl::Status ValidateWorkerFlags(const WorkerFlags& worker);

}  // namespace baton
