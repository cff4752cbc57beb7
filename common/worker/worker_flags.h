// The flags of prefill and decode workers.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/engine/engine.h"
#include "common/flags/flags.h"
#include "common/kv/staging.h"
#include "common/net/server_flags.h"

namespace baton {

struct WorkerFlags {
  ServerFlags server;
  std::string model;                    // path of a GGUF file
  std::string served_model_name;        // empty: the name in the model file
  std::string device = "auto";          // cpu, cuda, cuda:N, auto
  int threads = 0;                      // 0: one for each core in cpu_set, or of the machine
  std::string cpu_set;                  // "0-3,8": cores to stay on; empty: no binding
  std::string cpu_isa = "auto";         // auto, avx512, avx2, portable
  int block_size = 32;                  // tokens of a KV block
  std::string kv_cache_dtype = "auto";  // f16, f32, bf16, int8, fp8; auto is f16
  uint64_t kv_cache_memory_bytes = 0;   // 0: num_kv_blocks or a default decides
  int num_kv_blocks = 0;                // 0: kv_cache_memory_bytes or a default decides
  uint64_t kv_staging_memory_bytes = KvStaging::Options().bytes;  // pinned; on a GPU's worker only
  int max_model_len = 0;             // tokens; 0: the model's context, or what the cache holds
  int max_num_seqs = 64;             // sequences in one step
  int max_num_batched_tokens = 512;  // rows of one step
  bool enable_prefix_caching = true;
  double gpu_memory_utilization = 0.9;  // fraction of a GPU's memory that this process may take
  bool deterministic = false;
  int kv_connections = 2;              // connections to each decode worker
  std::string kv_wire_dtype = "auto";  // auto: the KV type; another quantised one if both ends ask
  bool strict_kv_dtype = false;        // whether to refuse peers with another KV type
};

// Adds the flags that say how a model is computed: device, threads, cpu-set, cpu-isa,
// deterministic, block-size, kv-cache-dtype, max-num-batched-tokens.
void AddComputeFlags(FlagSet& flags, WorkerFlags& worker);
// Adds all flags of a worker, those of AddComputeFlags too.
void AddWorkerFlags(FlagSet& flags, WorkerFlags& worker);

// Checks everything that can be checked before the model is opened. INVALID_ARGUMENT names the
// flag.
absl::Status ValidateWorkerFlags(const WorkerFlags& worker);

}  // namespace baton
