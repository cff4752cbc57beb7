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
#include "common/flags/flag_group.h"
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
        "--speculative=draft needs --draft-model; name the GGUF file of a smaller model");
  }
  if (mode == SpeculationMode::kNone && !runtime.draft_model.empty()) {
    return absl::InvalidArgumentError(
        "--draft-model: is not used with --speculative=none; leave one of them out");
  }
  return absl::OkStatus();
}

void AddMemoryFlags(FlagSet& flags, MemoryOptions& memory) {
  flags.SetGroup(FlagGroup::kKvCache);
  flags.AddBytes("kv-cache-memory-bytes", memory.kv_cache_memory_bytes,
                 "Memory for the KV cache. 0: on a GPU, the part of --gpu-memory-utilization that "
                 "weights and work buffers do not use; on a CPU, room for two full-length "
                 "sequences, at least 1 GiB, but at most a quarter of the free memory");
  flags.AddInt("num-kv-blocks", memory.num_kv_blocks, 0, kMaxKvBlocks,
               "Number of blocks in the KV cache, instead of --kv-cache-memory-bytes; a draft "
               "model gets the same number. 0: not set");
  flags.AddDouble("gpu-memory-utilization=SHARE", memory.gpu_utilization, 0, 1,
                  "Share of the GPU's memory to use, above 0. The KV cache gets what remains of it "
                  "after the weights and the buffers of the largest step");
}

void AddEngineFlags(FlagSet& flags, EngineOptions& engine) {
  flags.SetGroup(FlagGroup::kEngine);
  flags.AddInt("max-model-len", engine.max_model_len, 0, kMaxContextTokens,
               "Maximum tokens of prompt plus output; 0: the model's context length");
  flags.AddInt("max-num-seqs", engine.max_num_seqs, 1, 4096,
               "Maximum number of sequences in a batch");
  flags.SetGroup(FlagGroup::kKvCache);
  flags.AddBool("enable-prefix-caching", engine.enable_prefix_caching,
                "Keep KV blocks for later prompts with the same beginning");
  flags.SetGroup(FlagGroup::kSpeculation);
  flags.AddNamed("speculative", engine.speculation,
                 "Guess tokens so that one decode step yields several; the output stays the same. "
                 "ngram: from earlier text; draft: with --draft-model; auto: by either method, as "
                 "long as that is faster; none: never",
                 SpeculationModes());
}

void AddHandoffFlags(FlagSet& flags, HandoffOptions& handoff) {
  flags.SetGroup(FlagGroup::kPrefillDecode);
  flags.AddInt("kv-connections", handoff.connections, 1, kMaxKvStreams,
               "Connections to each decode worker for KV transfer");
  flags.AddString("kv-wire-dtype", handoff.wire_dtype,
                  "Type of KV values in transfer; auto: the type of the KV cache. int8, fp8 and "
                  "int4 lose precision and must be set on both workers",
                  KvTypeNamesAndAuto());
  flags.AddBool("strict-kv-dtype", handoff.strict_dtype,
                "Reject a peer whose KV cache has another type");
  flags.AddDouble("audit-share=SHARE", handoff.audit_share, 0, 1,
                  "Share of received KV caches, 0 to 1, that a decode worker checks by recomputing "
                  "one block; 0: none");
  flags.AddBytes("kv-staging-memory-bytes", handoff.staging.bytes,
                 "Pinned host memory for KV transfer from or to a GPU");
  flags.AddInt("kv-copy-threads", handoff.copy_threads, 0, kMaxCopyThreads,
               "Threads for checksums, conversions and copies in KV transfer from or to a GPU; 0: "
               "one, plus one for every four CPUs, at most 5");
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
  flags.SetGroup(FlagGroup::kEngine);
  flags.AddString("device=DEVICE", backend.device,
                  "Device that computes: cpu, cuda, cuda:N (GPU number N) or auto (a GPU if there "
                  "is one)");
  flags.AddInt("threads", backend.threads, 0, kMaxThreads,
               "Threads that compute or, for a GPU, load weights; 0: one per core");
  flags.AddString("cpu-set=CPUS", backend.cpu_set,
                  "CPUs to run on, such as 0-3,8; empty: all available CPUs");
  flags.AddString("cpu-isa", backend.cpu_isa,
                  "Instruction set for computing on the CPU; auto: the best one available",
                  {"auto", "avx512", "avx2", "portable"});
  flags.AddBool("deterministic", backend.deterministic,
                "Make results on CUDA bit-identical however requests are batched and split into "
                "chunks, at some cost in speed. CPU results are always bit-identical");
  flags.AddInt("max-num-batched-tokens", engine.max_num_batched_tokens, kChunkTokens, 1 << 20,
               "Maximum number of tokens in a step. A step that prefills takes as many as fit "
               "into 100 ms, but at least 64");
  flags.SetGroup(FlagGroup::kKvCache);
  flags.AddInt("block-size", engine.block_size, 16, 1024, "Tokens per KV block, a multiple of 16");
  flags.AddNamed("kv-cache-dtype", engine.kv_dtype,
                 "Type of the KV cache; int8 and fp8 take about half of f16's memory, int4 28 %. "
                 "auto: f16",
                 KvCacheTypes());
}

void AddWorkerFlags(FlagSet& flags, WorkerFlags& worker) {
  AddServerFlags(flags, worker.server);
  AddModelFileFlags(flags, worker.runtime.model, worker.runtime.model_sha256);
  flags.AddNamed("quantize", worker.runtime.quantisation,
                 "Type to which floating-point weights are quantised while they are loaded; all "
                 "workers need the same",
                 Quantisations());
  flags.SetGroup(FlagGroup::kSpeculation);
  flags.AddString("draft-model=FILE", worker.runtime.draft_model,
                  "Smaller GGUF model with which decode workers guess tokens; it must have the "
                  "same vocabulary. See --speculative");
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
                     ", which --strict-kv-dtype forbids; leave one of the two flags out"));
  }
  return ParseCpuSet(backend.cpu_set).status();
}

}  // namespace baton
