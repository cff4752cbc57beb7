#include "common/rpc/worker_flags.h"

#include <algorithm>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "common/base/status_macros.h"
#include "common/rpc/convert.h"

namespace baton {
namespace {

constexpr int kMaxCpu = 4095;
constexpr int kMaxThreads = 1024;
constexpr int kMaxTokens = 1 << 24;
constexpr int kMaxBlocks = 1 << 24;
constexpr int kChunkTokens = 64;  // chunks end on multiples of it
constexpr uint64_t kDefaultKvBytes = uint64_t{1} << 30;

absl::StatusOr<int> ParseCpu(absl::string_view text, absl::string_view part) {
  int cpu = 0;
  if (text.empty() || text.find_first_not_of("0123456789") != absl::string_view::npos ||
      !absl::SimpleAtoi(text, &cpu) || cpu > kMaxCpu) {
    return absl::InvalidArgumentError(
        absl::StrCat("--cpu-set: '", part, "' is not a core or a range; write for example 0-3,8"));
  }
  return cpu;
}

bool IsDevice(absl::string_view device) {
  if (device == "auto" || device == "cpu" || device == "cuda") return true;
  int ordinal = 0;
  return absl::ConsumePrefix(&device, "cuda:") &&
         device.find_first_not_of("0123456789") == absl::string_view::npos &&
         absl::SimpleAtoi(device, &ordinal);
}

absl::StatusOr<KvDtype> DtypeFromFlag(const std::string& value) {
  return value == "auto" ? KvDtype::kF16 : KvDtypeFromName(value);
}

}  // namespace

void AddWorkerFlags(FlagSet& flags, WorkerFlags& worker) {
  AddServerFlags(flags, worker.server);
  flags.AddString("model", worker.model, "Model file (GGUF)");
  flags.AddString("served-model-name", worker.served_model_name,
                  "Name of the model in metrics and messages; default: the file's own");
  flags.AddString("device", worker.device, "cpu, cuda, cuda:N or auto");
  flags.AddInt("threads", worker.threads, 0, kMaxThreads, "Compute threads; 0: one for each core");
  flags.AddString("cpu-set", worker.cpu_set, "Cores to stay on, such as 0-3,8");
  flags.AddString("cpu-isa", worker.cpu_isa, "Instruction set",
                  {"auto", "avx512", "avx2", "portable"});
  flags.AddInt("block-size", worker.block_size, 16, 1024, "Tokens in a KV block, a multiple of 16");
  flags.AddString("kv-cache-dtype", worker.kv_cache_dtype, "Type of the KV cache",
                  {"auto", "f16", "f32", "bf16"});
  flags.AddBytes("kv-cache-memory-bytes", worker.kv_cache_memory_bytes,
                 "Memory for the KV cache; 0: from --num-kv-blocks, else 1 GiB or more");
  flags.AddInt("num-kv-blocks", worker.num_kv_blocks, 0, kMaxBlocks,
               "Blocks of the KV cache, instead of its memory");
  flags.AddInt("max-model-len", worker.max_model_len, 0, kMaxTokens,
               "Tokens of prompt and output; 0: the model's context");
  flags.AddInt("max-num-seqs", worker.max_num_seqs, 1, 4096, "Sequences in one batch");
  flags.AddInt("max-num-batched-tokens", worker.max_num_batched_tokens, kChunkTokens, 1 << 20,
               "Tokens in one step");
  flags.AddDouble("gpu-memory-utilization", worker.gpu_memory_utilization, 0.05, 1.0,
                  "Part of the GPU's memory to use");
  flags.AddBool("deterministic", worker.deterministic, "Same bits for any batch on CUDA too");
  flags.AddInt("kv-connections", worker.kv_connections, 1, 16,
               "Connections to one decode worker for KV transfer");
  flags.AddString("kv-wire-dtype", worker.kv_wire_dtype, "Type of KV on the wire",
                  {"auto", "f16", "f32", "bf16"});
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
  return ParseCpuSetFlag(worker.cpu_set).status();
}

absl::StatusOr<std::vector<int>> ParseCpuSetFlag(const std::string& text) {
  std::set<int> cpus;
  if (text.empty()) return std::vector<int>();
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> range =
        absl::StrSplit(part, absl::MaxSplits('-', 1));
    BATON_ASSIGN_OR_RETURN(const int first, ParseCpu(range.first, part));
    const bool is_range = range.first.size() < part.size();
    BATON_ASSIGN_OR_RETURN(const int last, ParseCpu(is_range ? range.second : range.first, part));
    if (last < first) return ParseCpu("", part).status();
    for (int cpu = first; cpu <= last; ++cpu) cpus.insert(cpu);
  }
  return std::vector<int>(cpus.begin(), cpus.end());
}

absl::StatusOr<int> KvBlockCount(const WorkerFlags& worker, const KvLayout& layout,
                                 int max_model_len) {
  if (worker.num_kv_blocks > 0) return worker.num_kv_blocks;
  uint64_t blocks = worker.kv_cache_memory_bytes / layout.block_bytes();
  if (worker.kv_cache_memory_bytes == 0) {
    const int two_sequences = 2 * layout.BlocksFor(max_model_len);
    blocks = std::max(kDefaultKvBytes / layout.block_bytes(), static_cast<uint64_t>(two_sequences));
  }
  // One block for the prompt, one of head-room.
  if (blocks < 2) {
    return absl::ResourceExhaustedError(
        absl::StrCat("--kv-cache-memory-bytes ", worker.kv_cache_memory_bytes, " holds ", blocks,
                     " KV blocks of ", layout.block_bytes(),
                     " bytes, at least 2 are needed; raise it or lower --block-size"));
  }
  return static_cast<int>(std::min<uint64_t>(blocks, kMaxBlocks));
}

absl::StatusOr<EngineOptions> EngineOptionsFromFlags(const WorkerFlags& worker,
                                                     const KvLayout& layout, int max_model_len) {
  EngineOptions options;
  options.max_model_len = max_model_len;
  options.max_num_seqs = worker.max_num_seqs;
  options.max_num_batched_tokens = worker.max_num_batched_tokens;
  options.block_size = worker.block_size;
  BATON_ASSIGN_OR_RETURN(options.kv_dtype, DtypeFromFlag(worker.kv_cache_dtype));
  BATON_ASSIGN_OR_RETURN(options.num_kv_blocks, KvBlockCount(worker, layout, max_model_len));
  return options;
}

}  // namespace baton
