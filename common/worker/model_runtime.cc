#include "common/worker/model_runtime.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/backend/cpu/machine/cpu_set.h"
#include "common/base/numerics.h"
#include "common/base/prefix_hash.h"
#include "common/base/status_macros.h"
#include "common/engine/largest_step.h"
#include "common/gguf/gguf_file.h"
#include "common/gguf/model_sha256.h"

namespace baton {
namespace {

constexpr uint64_t kDefaultKvBytes = uint64_t{1} << 30;
constexpr uint64_t kFreeMemoryShare = 4;  // a quarter
constexpr double kCheckShare = 0.2;       // of the progress, for the check of the file's SHA-256

struct OpenedModel {
  GgufFile file;
  std::string digest;  // of the file; empty: not computed yet
  std::unique_ptr<Tokenizer> tokenizer;
  EngineOptions engine;  // checked; num_kv_blocks and prefix_identity are still missing
};

absl::StatusOr<OpenedModel> OpenModel(const ModelRuntimeOptions& options) {
  BATON_RETURN_IF_ERROR(CheckModelRuntimeOptions(options));
  BATON_ASSIGN_OR_RETURN(GgufFile file, GgufFile::Open(options.model));
  std::string digest;
  if (!options.model_sha256.empty()) {
    digest = file.Digest([&](double done) {
      if (options.progress) options.progress(kCheckShare * done);
    });
    BATON_RETURN_IF_ERROR(CheckModelSha256(options.model_sha256, digest, options.model));
  }
  BATON_ASSIGN_OR_RETURN(const ModelConfig config, ModelConfig::FromGguf(file));
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Load(file));
  EngineOptions engine = options.engine;
  engine.end_of_generation_ids = tokenizer->end_of_generation_ids();
  BATON_RETURN_IF_ERROR(CheckEngineOptions(engine, config));
  return OpenedModel{std::move(file), std::move(digest), std::move(tokenizer), std::move(engine)};
}

uint64_t TensorBytes(const GgufFile& file) {
  uint64_t bytes = 0;
  for (const GgufTensor& tensor : file.tensors()) bytes += tensor.data.size();
  return bytes;
}

// The number of KV blocks that a device has room for once the largest step has taken its memory.
absl::StatusOr<int> DeviceBlocks(const ModelRuntimeOptions& options, const EngineOptions& engine,
                                 Transformer& model, Backend& backend) {
  const absl::Status step = RunLargestStep(engine, model, backend);
  if (!step.ok()) return WithDeviceMemoryAdvice(step);
  const ModelConfig& config = model.config();
  const KvLayout layout = model.MakeKvLayout(engine.block_size, engine.kv_dtype);
  BATON_ASSIGN_OR_RETURN(const int most,
                         DeviceKvBlocks(options.memory, layout.block_bytes(), backend.MemoryUse()));
  const int longest = engine.max_model_len > 0
                          ? std::min(engine.max_model_len, config.context_length)
                          : config.context_length;
  const int decode_rows =
      std::max(backend.MakeRecordings()->PassRows(engine.max_num_seqs), MostSamples(engine));
  const absl::Status reserved = backend.ReservePasses(
      {.rows = std::max(LargestStepRows(engine), decode_rows),
       .sequences = decode_rows,
       // No sequence is longer than the cache.
       .tokens = static_cast<int>(std::min<int64_t>(longest, int64_t{most} * engine.block_size)),
       .heads = config.heads,
       .cache = {.block_size = layout.block_size,
                 .kv_heads = layout.kv_heads,
                 .head_dim = layout.head_dim,
                 .dtype = layout.dtype}});
  if (!reserved.ok()) return WithDeviceMemoryAdvice(reserved);
  // The engine makes a sampler like this one later, so its memory is counted here.
  const auto sampler = backend.MakeStepSampler(SamplerOptionsOf(engine, config, decode_rows));
  if (!sampler.ok()) return WithDeviceMemoryAdvice(sampler.status());
  return DeviceKvBlocks(options.memory, layout.block_bytes(), backend.MemoryUse());
}

std::string NameOf(const GgufFile& file, const ModelConfig& config) {
  if (!config.name.empty()) return config.name;
  return file.path().substr(file.path().find_last_of('/') + 1);
}

std::string MostBytesType(const GgufFile& file) {
  std::map<GgmlType, size_t> bytes;
  for (const GgufTensor& tensor : file.tensors()) bytes[tensor.type] += tensor.data.size();
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? "" : GgmlTypeName(most->first);
}

}  // namespace

absl::Status CheckModel(const ModelRuntimeOptions& options) { return OpenModel(options).status(); }

absl::Status CheckModelRuntimeOptions(const ModelRuntimeOptions& options) {
  if (options.model.empty()) {
    return absl::InvalidArgumentError("--model is missing; name a GGUF file");
  }
  BATON_RETURN_IF_ERROR(ValidateModelSha256(options.model_sha256));
  BATON_RETURN_IF_ERROR(CheckMemoryOptions(options.memory));
  // The engine's other options are checked once the model is known.
  return CheckBlockSize(options.engine.block_size);
}

absl::StatusOr<int> KvBlockCount(const MemoryOptions& options, const KvLayout& layout,
                                 int max_model_len, uint64_t free_memory_bytes) {
  if (options.num_kv_blocks > 0) return options.num_kv_blocks;
  uint64_t bytes = options.kv_cache_memory_bytes;
  if (bytes == 0) {
    const auto two_sequences = 2 * static_cast<uint64_t>(layout.BlocksFor(max_model_len));
    bytes = std::max(kDefaultKvBytes, two_sequences * layout.block_bytes());
    if (free_memory_bytes > 0) bytes = std::min(bytes, free_memory_bytes / kFreeMemoryShare);
  }
  const uint64_t blocks = bytes / layout.block_bytes();
  if (blocks < 2) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "KV cache: ", bytes, " bytes hold ", blocks, " blocks of ", layout.block_bytes(),
        " bytes and at least 2 are needed; raise --kv-cache-memory-bytes or lower --block-size"));
  }
  return static_cast<int>(std::min<uint64_t>(blocks, kMaxKvBlocks));
}

absl::StatusOr<std::unique_ptr<ModelRuntime>> LoadModelRuntime(const ModelRuntimeOptions& options) {
  // The backend's pool pins the thread that packs the weights, which is this one. The guard undoes
  // that, so that threads started later do not inherit it.
  const CpuAffinityGuard affinity;
  BATON_ASSIGN_OR_RETURN(OpenedModel opened, OpenModel(options));
  const GgufFile& file = opened.file;
  EngineOptions& engine = opened.engine;
  auto runtime = std::make_unique<ModelRuntime>();
  runtime->tokenizer = std::move(opened.tokenizer);
  BATON_ASSIGN_OR_RETURN(runtime->backend, MakeBackend(options.backend));
  const double checked = opened.digest.empty() ? 0 : kCheckShare;
  const auto progress = [&](double done) {
    if (options.progress) options.progress(checked + (1 - checked) * done);
  };
  const bool in_device = !runtime->backend->host_memory();
  if (in_device) {
    BATON_RETURN_IF_ERROR(
        CheckWeightsFit(TensorBytes(file), options.memory, runtime->backend->MemoryUse()));
  }
  absl::StatusOr<std::unique_ptr<Transformer>> loaded =
      Transformer::Load(file, *runtime->backend, progress);
  if (!loaded.ok()) return in_device ? WithDeviceMemoryAdvice(loaded.status()) : loaded.status();
  std::unique_ptr<Transformer> model = *std::move(loaded);
  runtime->name = NameOf(file, model->config());
  runtime->weights_type = MostBytesType(file);
  runtime->weights_digest = opened.digest.empty() ? file.Digest() : opened.digest;
  runtime->tokenizer_digest = runtime->tokenizer->digest();

  engine.prefix_identity =
      PrefixIdentity(runtime->weights_digest, model->config().Digest(),
                     Numerics::OfCache(runtime->backend->Numerics(), engine.kv_dtype).name());
  if (in_device) {
    BATON_ASSIGN_OR_RETURN(engine.num_kv_blocks,
                           DeviceBlocks(options, engine, *model, *runtime->backend));
  } else {
    const KvLayout layout = model->MakeKvLayout(engine.block_size, engine.kv_dtype);
    const int longest =
        engine.max_model_len > 0 ? engine.max_model_len : model->config().context_length;
    BATON_ASSIGN_OR_RETURN(engine.num_kv_blocks, KvBlockCount(options.memory, layout, longest,
                                                              runtime->backend->FreeMemoryBytes()));
  }
  BATON_ASSIGN_OR_RETURN(runtime->engine,
                         Engine::Create(std::move(model), *runtime->backend, engine));
  return runtime;
}

}  // namespace baton
