#include "common/worker/worker_flags.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "common/backend/cpu/machine/cpu_set.h"
#include "common/base/kv_type_name.h"
#include "common/base/status_macros.h"
#include "common/net/model_name_flags.h"
#include "common/rpc/limits.h"
#include "common/speculation/speculation_mode.h"
#include "common/worker/device_memory.h"

namespace baton {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int kChunkTokens = 64;  // chunks end on multiples of this number of tokens

bool IsDevice(absl::string_view device) {
  if (device == "auto" || device == "cpu" || device == "cuda") return true;
  int ordinal = 0;
  return absl::ConsumePrefix(&device, "cuda:") &&
         device.find_first_not_of("0123456789") == absl::string_view::npos &&
         absl::SimpleAtoi(device, &ordinal);
}

absl::Status CheckSpeculation(const ModelRuntimeOptions& runtime) {
  const SpeculationMode mode = runtime.engine.speculation;
  if (mode == SpeculationMode::kDraft && runtime.draft_model.empty()) {
    return absl::InvalidArgumentError(
        "--speculative: draft needs --draft-model; name the GGUF file of a smaller model");
  }
  if (mode == SpeculationMode::kNone && !runtime.draft_model.empty()) {
    return absl::InvalidArgumentError(
        "--draft-model: --speculative=none guesses for nobody; leave one of them out");
  }
  return absl::OkStatus();
}

void AddMemoryFlags(FlagSet& flags, MemoryOptions& memory) {
  flags.AddBytes(
      "kv-cache-memory-bytes", memory.kv_cache_memory_bytes,
      "Memory for the KV cache, that of --draft-model included; 0: by --num-kv-blocks, else on a "
      "GPU what --gpu-memory-utilization leaves, on a CPU 1 GiB or two sequences of the longest "
      "length, at most a quarter of the free memory");
  flags.AddInt("num-kv-blocks", memory.num_kv_blocks, 0, kMaxKvBlocks,
               "Blocks of the KV cache, and as many for --draft-model, instead of their memory");
  flags.AddDouble("gpu-memory-utilization", memory.gpu_utilization, 0, 1,
                  "Part of the GPU's memory to use: weights, the largest step, and the KV cache, "
                  "which gets the rest; above 0");
}

void AddEngineFlags(FlagSet& flags, EngineOptions& engine) {
  flags.AddInt("max-model-len", engine.max_model_len, 0, kMaxContextTokens,
               "Tokens of prompt and output; 0: the model's context. Models with LongRoPE rotate "
               "by it");
  flags.AddInt("max-num-seqs", engine.max_num_seqs, 1, 4096, "Sequences in one batch");
  flags.AddBool("enable-prefix-caching", engine.enable_prefix_caching,
                "Keep KV blocks for later prompts that begin alike");
  flags.AddNamed("speculative", engine.speculation,
                 "Where tokens are decoded, guess the next ones, to make several in a step: auto "
                 "guesses as many as pay, by what came before or else by --draft-model; ngram all "
                 "that came before; draft all that --draft-model says. It changes no token",
                 SpeculationModes());
}

void AddHandoffFlags(FlagSet& flags, HandoffOptions& handoff) {
  flags.AddInt("kv-connections", handoff.connections, 1, kMaxKvStreams,
               "Connections to one decode worker for KV transfer");
  flags.AddString("kv-wire-dtype", handoff.wire_dtype,
                  "Type of KV on the wire; int8, fp8 and int4 are lossy and need both workers",
                  KvTypeNamesAndAuto());
  flags.AddBool("strict-kv-dtype", handoff.strict_dtype, "Refuse a peer whose KV type differs");
  flags.AddDouble("audit-share", handoff.audit_share, 0, 1,
                  "Share of the received KV caches of which a decode worker recomputes a block and "
                  "compares; 0: none");
  flags.AddBytes("kv-staging-memory-bytes", handoff.staging.bytes,
                 "Pinned memory of the host for KV on its way from or to a GPU");
  flags.AddInt("kv-copy-threads", handoff.copy_threads, 0, kMaxCopyThreads,
               "Threads for CRCs, conversions and copies of KV on its way from or to a GPU, a "
               "push's own among them; 0: one, and one more for every four CPUs, at most 5");
}

constexpr int kMostHelpers = 4;  // unless the flag says more
constexpr int kCpusOfAHelper = 4;

}  // namespace

int CopyHelpers(int copy_threads, int cpus) {
  return copy_threads > 0 ? copy_threads - 1 : std::min(cpus / kCpusOfAHelper, kMostHelpers);
}

std::vector<std::pair<std::string, KvType>> KvCacheTypes() {
  std::vector<std::pair<std::string, KvType>> types = {{"auto", EngineOptions().kv_dtype}};
  for (const KvType type : kAllKvTypes) types.emplace_back(KvTypeName(type), type);
  types.emplace_back("fp8_e4m3", KvType::kFp8);  // as other servers call it
  return types;
}

void AddComputeFlags(FlagSet& flags, BackendOptions& backend, EngineOptions& engine) {
  flags.AddString("device", backend.device, "cpu, cuda, cuda:N or auto");
  flags.AddInt("threads", backend.threads, 0, kMaxThreads,
               "Threads that compute, or load weights for a GPU; 0: one for each core");
  flags.AddString("cpu-set", backend.cpu_set, "Cores to stay on, such as 0-3,8");
  flags.AddString("cpu-isa", backend.cpu_isa, "Instruction set",
                  {"auto", "avx512", "avx2", "portable"});
  flags.AddBool("deterministic", backend.deterministic,
                "On CUDA too the same bits in any batch, chunk or step, at some cost of speed");
  flags.AddInt("block-size", engine.block_size, 16, 1024, "Tokens in a KV block, a multiple of 16");
  flags.AddNamed("kv-cache-dtype", engine.kv_dtype,
                 "Type of the KV cache; int8 and fp8 take about half of f16's memory, int4 0.28",
                 KvCacheTypes());
  flags.AddInt("max-num-batched-tokens", engine.max_num_batched_tokens, kChunkTokens, 1 << 20,
               "Tokens in one step at most; prefills take as many as 100 ms allow, at least 64");
}

void AddWorkerFlags(FlagSet& flags, WorkerFlags& worker) {
  AddServerFlags(flags, worker.server);
  flags.AddString("model", worker.runtime.model, "GGUF file or Hugging Face folder");
  flags.AddString(
      "model-sha256", worker.runtime.model_sha256,
      "SHA-256 that the model must have: what `sha256sum` prints of the file, or of what "
      "it prints of several files");
  flags.AddNamed("quantize", worker.runtime.quantisation,
                 "Quantise weights of floats while they are loaded; both kinds of workers alike",
                 Quantisations());
  flags.AddString("draft-model", worker.runtime.draft_model,
                  "Where tokens are decoded, a smaller model of the same vocabulary (GGUF) that "
                  "guesses them; see --speculative");
  AddServedModelNameFlag(flags, worker.served_model_names);
  AddComputeFlags(flags, worker.runtime.backend, worker.runtime.engine);
  AddEngineFlags(flags, worker.runtime.engine);
  AddMemoryFlags(flags, worker.runtime.memory);
  AddHandoffFlags(flags, worker.handoff);
}

absl::Status ValidateWorkerFlags(const WorkerFlags& worker) {
  BATON_RETURN_IF_ERROR(ValidateServerFlags(worker.server));
  BATON_RETURN_IF_ERROR(CheckModelRuntimeOptions(worker.runtime));
  const BackendOptions& backend = worker.runtime.backend;
  if (!IsDevice(backend.device)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device: '", backend.device, "' is not one of cpu, cuda, cuda:N, auto"));
  }
  BATON_RETURN_IF_ERROR(CheckSpeculation(worker.runtime));
  const std::string kv_type = KvTypeName(worker.runtime.engine.kv_dtype);
  const HandoffOptions& handoff = worker.handoff;
  if (handoff.strict_dtype && handoff.wire_dtype != "auto" && handoff.wire_dtype != kv_type) {
    return absl::InvalidArgumentError(
        absl::StrCat("--kv-wire-dtype: ", handoff.wire_dtype, " converts a KV cache of ", kv_type,
                     ", which --strict-kv-dtype forbids; give one of them"));
  }
  return ParseCpuSet(backend.cpu_set).status();
}

}  // namespace baton
