#include "common/worker/worker_flags.h"

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "common/backend/cpu/machine/cpu_set.h"
#include "common/base/kv_type_name.h"
#include "common/base/status_macros.h"
#include "common/kv/layout.h"
#include "common/rpc/limits.h"
#include "common/worker/device_memory.h"
#include "common/worker/model_runtime.h"

namespace baton {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int kMaxContextTokens = 1 << 24;
constexpr int kChunkTokens = 64;  // chunks end on multiples of it

bool IsDevice(absl::string_view device) {
  if (device == "auto" || device == "cpu" || device == "cuda") return true;
  int ordinal = 0;
  return absl::ConsumePrefix(&device, "cuda:") &&
         device.find_first_not_of("0123456789") == absl::string_view::npos &&
         absl::SimpleAtoi(device, &ordinal);
}

}  // namespace

void AddComputeFlags(FlagSet& flags, WorkerFlags& worker) {
  flags.AddString("device", worker.device, "cpu, cuda, cuda:N or auto");
  flags.AddInt("threads", worker.threads, 0, kMaxThreads, "Compute threads; 0: one for each core");
  flags.AddString("cpu-set", worker.cpu_set, "Cores to stay on, such as 0-3,8");
  flags.AddString("cpu-isa", worker.cpu_isa, "Instruction set",
                  {"auto", "avx512", "avx2", "portable"});
  flags.AddBool("deterministic", worker.deterministic,
                "On CUDA too the same bits in any batch, chunk or step, at some cost of speed");
  flags.AddInt("block-size", worker.block_size, 16, 1024, "Tokens in a KV block, a multiple of 16");
  std::vector<std::string> kv_types = KvTypeChoices();
  kv_types.emplace_back("fp8_e4m3");  // another name of fp8
  flags.AddString("kv-cache-dtype", worker.kv_cache_dtype, "Type of the KV cache", kv_types);
  flags.AddInt("max-num-batched-tokens", worker.max_num_batched_tokens, kChunkTokens, 1 << 20,
               "Tokens in one step at most; prefills take as many as 100 ms allow, at least 64");
}

void AddWorkerFlags(FlagSet& flags, WorkerFlags& worker) {
  AddServerFlags(flags, worker.server);
  flags.AddString("model", worker.model, "Model file (GGUF)");
  flags.AddString("served-model-name", worker.served_model_name,
                  "Name of the model in metrics and messages; default: the file's own");
  AddComputeFlags(flags, worker);
  flags.AddBytes(
      "kv-cache-memory-bytes", worker.kv_cache_memory_bytes,
      "Memory for the KV cache; 0: by --num-kv-blocks, else on a GPU what "
      "--gpu-memory-utilization leaves, on a CPU 1 GiB or two sequences of the longest length, at "
      "most a quarter of the free memory");
  flags.AddInt("num-kv-blocks", worker.num_kv_blocks, 0, kMaxKvBlocks,
               "Blocks of the KV cache, instead of its memory");
  flags.AddBytes("kv-staging-memory-bytes", worker.kv_staging_memory_bytes,
                 "Pinned memory of the host for KV on its way from or to a GPU");
  flags.AddInt("max-model-len", worker.max_model_len, 0, kMaxContextTokens,
               "Tokens of prompt and output; 0: the model's context");
  flags.AddInt("max-num-seqs", worker.max_num_seqs, 1, 4096, "Sequences in one batch");
  flags.AddBool("enable-prefix-caching", worker.enable_prefix_caching,
                "Keep KV blocks for later prompts that begin alike");
  flags.AddDouble("gpu-memory-utilization", worker.gpu_memory_utilization, 0, 1,
                  "Part of the GPU's memory to use: weights, the largest step, and the KV cache, "
                  "which gets the rest; above 0");
  flags.AddInt("kv-connections", worker.kv_connections, 1, kMaxKvStreams,
               "Connections to one decode worker for KV transfer");
  flags.AddString("kv-wire-dtype", worker.kv_wire_dtype,
                  "Type of KV on the wire; int8 and fp8 are lossy and need both workers",
                  KvTypeChoices());
  flags.AddBool("strict-kv-dtype", worker.strict_kv_dtype, "Refuse a peer whose KV type differs");
}

absl::Status ValidateWorkerFlags(const WorkerFlags& worker) {
  BATON_RETURN_IF_ERROR(ValidateServerFlags(worker.server));
  if (worker.model.empty()) {
    return absl::InvalidArgumentError("--model is missing; name a GGUF file");
  }
  if (!IsDevice(worker.device)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device: '", worker.device, "' is not one of cpu, cuda, cuda:N, auto"));
  }
  if (worker.block_size % kKvPageTokens != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--block-size: ", worker.block_size, " is not a multiple of ", kKvPageTokens));
  }
  if (worker.num_kv_blocks > 0 && worker.kv_cache_memory_bytes > 0) {
    return absl::InvalidArgumentError(
        "--num-kv-blocks and --kv-cache-memory-bytes say the same; give one of them");
  }
  BATON_RETURN_IF_ERROR(CheckUtilization(worker.gpu_memory_utilization));
  BATON_ASSIGN_OR_RETURN(const KvType kv_type, ParseKvType(worker.kv_cache_dtype));
  const std::string kv_dtype = KvTypeName(kv_type);
  if (worker.strict_kv_dtype && worker.kv_wire_dtype != "auto" &&
      worker.kv_wire_dtype != kv_dtype) {
    return absl::InvalidArgumentError(
        absl::StrCat("--kv-wire-dtype: ", worker.kv_wire_dtype, " converts a KV cache of ",
                     kv_dtype, ", which --strict-kv-dtype forbids; give one of them"));
  }
  return ParseCpuSet(worker.cpu_set).status();
}

}  // namespace baton
