#include "common/worker/model_runtime.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"

#include "common/backend/cpu/machine/cpu_set.h"
#include "common/backend/cpu/machine/thread_pool.h"
#include "common/base/numerics.h"
#include "common/base/prefix_hash.h"
#include "common/base/status_macros.h"
#include "common/engine/first_steps.h"
#include "common/engine/schedule.h"
#include "common/gguf/gguf_file.h"
#include "common/gguf/model_sha256.h"
#include "common/hugging_face/open_model_file.h"

namespace baton {
namespace {

constexpr uint64_t kDefaultKvBytes = uint64_t{1} << 30;
constexpr uint64_t kFreeMemoryShare = 4;  // a quarter
// The check of the file's SHA-256, if it is made, is this share of the reported progress.
constexpr double kCheckShare = 0.2;
// Making the weights' identity is this share of the progress that the check leaves.
constexpr double kIdentityShare = 0.2;

struct OpenedModel {
  GgufFile file;
  std::unique_ptr<Tokenizer> tokenizer;
  EngineOptions engine;  // checked; num_kv_blocks and prefix_identity are still missing
  std::optional<GgufFile> draft;
};

// The first token that the two vocabularies do not have alike; none: they are equal.
std::optional<int32_t> FirstDifference(const Tokenizer& a, const Tokenizer& b) {
  const int32_t shared = std::min(a.vocab_size(), b.vocab_size());
  for (int32_t id = 0; id < shared; ++id) {
    if (a.TokenBytes(id) != b.TokenBytes(id)) return id;
  }
  if (a.vocab_size() != b.vocab_size()) return shared;
  return std::nullopt;
}

absl::Status CheckDraft(const GgufFile& file, const OpenedModel& target,
                        const ModelConfig& target_config) {
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Load(file));
  if (const auto id = FirstDifference(*tokenizer, *target.tokenizer)) {
    return absl::InvalidArgumentError(
        absl::StrCat("has a vocabulary of ", tokenizer->vocab_size(),
                     " tokens that differs from the main model's, which has ",
                     target.tokenizer->vocab_size(), ": token ", *id, " differs"));
  }
  BATON_ASSIGN_OR_RETURN(const ModelConfig config, ModelConfig::FromGguf(file));
  if (config.vocab_size != target_config.vocab_size) {
    return absl::InvalidArgumentError(absl::StrCat("has logits for ", config.vocab_size,
                                                   " tokens, but the main model for ",
                                                   target_config.vocab_size));
  }
  return CheckHeadDim("--kv-cache-dtype", target.engine.kv_dtype, config.head_dim);
}

absl::StatusOr<GgufFile> OpenDraft(const std::string& path, GgufFile::Part part,
                                   const OpenedModel& target, const ModelConfig& target_config) {
  absl::StatusOr<GgufFile> file = OpenModelFile(path, part);
  const absl::Status status = file.ok() ? CheckDraft(*file, target, target_config) : file.status();
  if (status.ok()) return file;
  return absl::Status(
      status.code(),
      absl::StrCat("--draft-model: ", file.ok() ? path + ": " : "", status.message(),
                   "; give a smaller model of the same family, or leave the flag out"));
}

absl::StatusOr<OpenedModel> OpenModel(const ModelRuntimeOptions& options, GgufFile::Part part) {
  BATON_RETURN_IF_ERROR(CheckModelRuntimeOptions(options));
  BATON_ASSIGN_OR_RETURN(GgufFile file, OpenModelFile(options.model, part));
  if (!options.model_sha256.empty()) {
    const std::string digest = file.Digest([&](double done) {
      if (options.progress) options.progress(kCheckShare * done);
    });
    BATON_RETURN_IF_ERROR(CheckModelSha256(options.model_sha256, digest, options.model));
  }
  file = GgufFile::Quantised(std::move(file), options.quantisation);
  BATON_ASSIGN_OR_RETURN(const ModelConfig config, ModelConfig::FromGguf(file));
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Load(file));
  EngineOptions engine = options.engine;
  engine.end_of_generation_ids = tokenizer->end_of_generation_ids();
  BATON_RETURN_IF_ERROR(CheckEngineOptions(engine, config));
  OpenedModel opened = {.file = std::move(file),
                        .tokenizer = std::move(tokenizer),
                        .engine = std::move(engine),
                        .draft = std::nullopt};
  if (!options.draft_model.empty()) {
    BATON_ASSIGN_OR_RETURN(opened.draft, OpenDraft(options.draft_model, part, opened, config));
  }
  return opened;
}

uint64_t TensorBytes(const GgufFile& file) {
  uint64_t bytes = 0;
  for (const GgufTensor& tensor : file.tensors()) bytes += tensor.size_bytes();
  return bytes;
}

// The bytes of a block of the KV cache, and of one of the draft model's, which may be null.
uint64_t BlockBytes(const EngineOptions& engine, const Transformer& model,
                    const Transformer* draft) {
  const KvLayout layout = model.MakeKvLayout(engine.block_size, engine.kv_dtype);
  if (draft == nullptr) return layout.block_bytes();
  // The draft model has a block for each span of the model's (Engine::Create).
  KvLayout drafting = draft->MakeKvLayout(engine.block_size, engine.kv_dtype);
  drafting.groups = {};
  const auto groups = static_cast<uint64_t>(layout.groups.count());
  return layout.block_bytes() + (drafting.block_bytes() + groups - 1) / groups;
}

// Rows of a pass of max_num_seqs decodes, padding included, or of the samples of a step if those
// are more.
int DecodeRows(const EngineOptions& engine, Backend& backend) {
  return std::max(backend.MakeRecordings()->PassRows(engine.max_num_seqs), MostSamples(engine));
}

// Takes the memory of a device that the model's largest step needs. `block_bytes`: those of a block
// of each KV cache.
absl::Status TakeScratch(const MemoryOptions& memory, const EngineOptions& engine,
                         uint64_t block_bytes, Transformer& model, Backend& backend) {
  BATON_RETURN_IF_ERROR(WithDeviceMemoryAdvice(RunLargestStep(engine, model, backend)));
  const ModelConfig& config = model.config();
  const KvLayout layout = model.MakeKvLayout(engine.block_size, engine.kv_dtype);
  BATON_ASSIGN_OR_RETURN(const int most, DeviceKvBlocks(memory, block_bytes, backend.MemoryUse()));
  const int longest = engine.max_model_len > 0
                          ? std::min(engine.max_model_len, config.context_length)
                          : config.context_length;
  const int decode_rows = DecodeRows(engine, backend);
  return WithDeviceMemoryAdvice(backend.ReservePasses(
      {.rows = std::max(LargestStepRows(engine), decode_rows),
       .sequences = decode_rows,
       // No sequence is longer than the cache.
       .tokens = static_cast<int>(std::min<int64_t>(longest, int64_t{most} * engine.block_size)),
       .cache_tokens = int64_t{most} * engine.block_size,
       .heads = config.heads,
       .cache = {.block_size = layout.block_size,
                 .kv_heads = layout.kv_heads,
                 .head_dim = layout.head_dim,
                 .dtype = layout.dtype,
                 .groups = layout.groups.count()}}));
}

// The number of KV blocks that a device has room for once the largest step has taken its memory.
// `draft` may be null.
absl::StatusOr<int> DeviceBlocks(const MemoryOptions& memory, const EngineOptions& engine,
                                 Transformer& model, Transformer* draft, Backend& backend) {
  const uint64_t block_bytes = BlockBytes(engine, model, draft);
  if (draft != nullptr) {
    EngineOptions drafting = engine;
    drafting.max_num_batched_tokens = kChunkTokens;
    BATON_RETURN_IF_ERROR(TakeScratch(memory, drafting, block_bytes, *draft, backend));
  }
  BATON_RETURN_IF_ERROR(TakeScratch(memory, engine, block_bytes, model, backend));
  // The engine makes a sampler like this one later, so its memory is counted here.
  const int decode_rows = DecodeRows(engine, backend);
  const auto sampler =
      backend.MakeStepSampler(SamplerOptionsOf(engine, model.config(), decode_rows));
  if (!sampler.ok()) return WithDeviceMemoryAdvice(sampler.status());
  return DeviceKvBlocks(memory, block_bytes, backend.MemoryUse());
}

absl::StatusOr<std::unique_ptr<Transformer>> LoadWeights(const GgufFile& file, int max_model_len,
                                                         Backend& backend,
                                                         Transformer::Progress progress) {
  absl::StatusOr<std::unique_ptr<Transformer>> model =
      Transformer::Load(file, backend, progress, max_model_len);
  if (model.ok() || backend.host_memory()) return model;
  return WithDeviceMemoryAdvice(model.status());
}

// The identity of the file's weights, made by as many threads as the backend has.
std::string WeightsDigest(const GgufFile& file, Quantisation quantisation,
                          const PoolThreads& threads, const std::function<void(double)>& progress) {
  ThreadPool pool(threads.count, threads.cpus);
  return QuantisedDigest(
      file.PiecewiseDigest(
          [&pool](int count, absl::FunctionRef<void(int, int)> work) { pool.Run(count, work); },
          progress),
      quantisation);
}

std::string NameOf(const GgufFile& file, const ModelConfig& config) {
  if (!config.name.empty()) return config.name;
  return file.path().substr(file.path().find_last_of('/') + 1);
}

std::string MostBytesType(const GgufFile& file) {
  std::map<GgmlType, size_t> bytes;
  for (const GgufTensor& tensor : file.tensors()) bytes[tensor.type] += tensor.size_bytes();
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? "" : GgmlTypeName(most->first);
}

}  // namespace

absl::Status CheckModel(const ModelRuntimeOptions& options) {
  return OpenModel(options, GgufFile::Part::kUnread).status();
}

absl::Status CheckModelRuntimeOptions(const ModelRuntimeOptions& options) {
  if (options.model.empty()) {
    return absl::InvalidArgumentError(
        "--model is missing; name a GGUF file or a Hugging Face folder");
  }
  BATON_RETURN_IF_ERROR(ValidateModelSha256(options.model_sha256));
  BATON_RETURN_IF_ERROR(CheckMemoryOptions(options.memory));
  // The engine's other options are checked once the model is known.
  return CheckBlockSize(options.engine.block_size);
}

absl::StatusOr<int> KvBlockCount(const MemoryOptions& options, const KvLayout& layout,
                                 int64_t blocks_of_longest, uint64_t free_memory_bytes,
                                 uint64_t draft_block_bytes) {
  if (options.num_kv_blocks > 0) return options.num_kv_blocks;
  const uint64_t block_bytes = layout.block_bytes() + draft_block_bytes;
  uint64_t bytes = options.kv_cache_memory_bytes;
  if (bytes == 0) {
    const auto two_sequences = 2 * static_cast<uint64_t>(blocks_of_longest);
    bytes = std::max(kDefaultKvBytes, two_sequences * block_bytes);
    if (free_memory_bytes > 0) bytes = std::min(bytes, free_memory_bytes / kFreeMemoryShare);
  }
  const uint64_t blocks = bytes / block_bytes;
  if (blocks < 2) {
    return absl::ResourceExhaustedError(
        absl::StrCat("KV cache: ", bytes, " bytes hold ", blocks, " blocks of ", block_bytes,
                     " bytes, but at least 2 blocks are needed; raise --kv-cache-memory-bytes or "
                     "lower --block-size"));
  }
  return static_cast<int>(std::min<uint64_t>(blocks, kMaxKvBlocks));
}

absl::StatusOr<std::unique_ptr<ModelRuntime>> LoadModelRuntime(const ModelRuntimeOptions& options) {
  // The backend's pool pins the thread that packs the weights, which is this one. The guard undoes
  // that, so that threads started later do not inherit it.
  const CpuAffinityGuard affinity;
  // A flag names CPUs of the process, so it is read before this thread is pinned to one of them.
  BATON_ASSIGN_OR_RETURN(const PoolThreads threads, ResolveThreads(options.backend));
  auto runtime = std::make_unique<ModelRuntime>();
  BATON_ASSIGN_OR_RETURN(OpenedModel opened, OpenModel(options, GgufFile::Part::kAll));
  const GgufFile& file = opened.file;
  EngineOptions& engine = opened.engine;
  runtime->tokenizer = std::move(opened.tokenizer);
  BATON_ASSIGN_OR_RETURN(runtime->backend, MakeBackend(options.backend));
  runtime->times.Took("file");
  const double checked = options.model_sha256.empty() ? 0 : kCheckShare;
  const auto progress = [&](double done) {
    if (options.progress) options.progress(checked + (1 - checked) * done);
  };
  const bool in_device = !runtime->backend->host_memory();
  if (opened.draft) runtime->draft_weight_bytes = TensorBytes(*opened.draft);
  if (in_device) {
    BATON_RETURN_IF_ERROR(CheckWeightsFit(TensorBytes(file) + runtime->draft_weight_bytes,
                                          options.memory, runtime->backend->MemoryUse()));
  }
  std::unique_ptr<Transformer> draft;
  if (opened.draft) {
    BATON_ASSIGN_OR_RETURN(
        draft, LoadWeights(*opened.draft, engine.max_model_len, *runtime->backend, [](double) {}));
  }
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<Transformer> model,
                         LoadWeights(file, engine.max_model_len, *runtime->backend,
                                     [&](double done) { progress((1 - kIdentityShare) * done); }));
  runtime->times.Took("weights");
  runtime->name = NameOf(file, model->config());
  runtime->weights_type = MostBytesType(file);
  runtime->weights_digest = WeightsDigest(file, options.quantisation, threads, [&](double done) {
    progress(1 - kIdentityShare + kIdentityShare * done);
  });
  runtime->metadata_digest = file.MetadataDigest();
  runtime->sample_digest = QuantisedDigest(file.SampleDigest(), options.quantisation);
  runtime->times.Took("identity");
  runtime->tokenizer_digest = runtime->tokenizer->digest();

  engine.prefix_identity =
      PrefixIdentity(runtime->weights_digest, model->config().Digest(),
                     Numerics::OfCache(runtime->backend->Numerics(), engine.kv_dtype).name());
  if (in_device) {
    BATON_ASSIGN_OR_RETURN(engine.num_kv_blocks, DeviceBlocks(options.memory, engine, *model,
                                                              draft.get(), *runtime->backend));
    runtime->times.Took("largest step");
  } else {
    const KvLayout layout = model->MakeKvLayout(engine.block_size, engine.kv_dtype);
    const int longest =
        engine.max_model_len > 0 ? engine.max_model_len : model->config().context_length;
    BATON_ASSIGN_OR_RETURN(
        engine.num_kv_blocks,
        KvBlockCount(options.memory, layout,
                     layout.groups.BlocksOf(longest, engine.block_size, LargestStepRows(engine)),
                     runtime->backend->FreeMemoryBytes(),
                     BlockBytes(engine, *model, draft.get()) - layout.block_bytes()));
  }
  BATON_ASSIGN_OR_RETURN(runtime->engine, Engine::Create(std::move(model), *runtime->backend,
                                                         engine, std::move(draft)));
  runtime->times.Took("KV cache");
  return runtime;
}

}  // namespace baton
