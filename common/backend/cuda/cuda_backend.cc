#include "common/backend/cuda/cuda_backend.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/backend/cuda/attention/append_attention.h"
#include "common/backend/cuda/attention/attention.h"
#include "common/backend/cuda/attention/rotate_append.h"
#include "common/backend/cuda/attention/run_attention.h"
#include "common/backend/cuda/device/cuda_error.h"
#include "common/backend/cuda/experts/expert_mixer.h"
#include "common/backend/cuda/pass/cuda_recordings.h"
#include "common/backend/cuda/pass/embed.h"
#include "common/backend/cuda/pass/pass_upload.h"
#include "common/backend/cuda/pass/row_norms.h"
#include "common/backend/cuda/pass/row_operations.h"
#include "common/backend/cuda/weight/cuda_weight.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

// Kinds of layers whose angles ReservePasses has room for: local and global ones.
constexpr size_t kReservedRopes = 2;

bool SameShape(const Tensor& a, const Tensor& b) {
  return a.rows == b.rows && a.columns == b.columns;
}

DeviceLimits LimitsOf(int device) {
  int multiprocessors = 0;
  int shared_bytes = 0;
  CheckCuda(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
            "cudaDeviceGetAttribute");
  CheckCuda(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
            "cudaDeviceGetAttribute");
  return {.multiprocessors = multiprocessors, .shared_bytes = static_cast<size_t>(shared_bytes)};
}

// The words of a recorded pass's plan with room for as many tasks.
size_t RecordedPlanWords(int max_tasks) {
  return MaxAttentionPlanBytes(max_tasks, /*sequences=*/0, /*max_tokens=*/0) / sizeof(int32_t);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaBackend>> CudaBackend::Create(CudaBackendOptions options) {
  std::unique_ptr<Gemm> gemm;
  if (options.library && !options.deterministic) {
    BATON_ASSIGN_OR_RETURN(gemm, Gemm::Create());
  }
  return std::unique_ptr<CudaBackend>(new CudaBackend(std::move(options), std::move(gemm)));
}

CudaBackend::CudaBackend(CudaBackendOptions options, std::unique_ptr<Gemm> gemm)
    : options_(std::move(options)),
      limits_(LimitsOf(options_.device)),
      cut_(options_.deterministic ? AttentionCut::kAlike : AttentionCut::kByRowCount),
      stream_(MakeCudaStream()),
      uploads_(stream_.get()),
      copies_(options_.device, stream_.get()),
      gemm_(std::move(gemm)) {}

CudaBackend::~CudaBackend() { Synchronize(); }

void CudaBackend::UseDevice() const { CheckCuda(cudaSetDevice(options_.device), "cudaSetDevice"); }

DeviceMemoryUse CudaBackend::MemoryUse() const {
  UseDevice();
  size_t free = 0;
  size_t total = 0;
  CheckCuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {.total = total, .free = free, .taken = AllocatedDeviceBytes()};
}

absl::Status CudaBackend::ReservePasses(const PassLimits& limits) {
  UseDevice();
  const auto rows = static_cast<size_t>(limits.rows);
  const auto sequences = static_cast<size_t>(limits.sequences);
  const auto longest_table =
      static_cast<size_t>((limits.tokens / limits.cache.block_size + 1) * limits.cache.groups);
  // A recorded pass takes the room of its shape, which is no smaller than that of another pass.
  const PassShape shape = RecordedShape(RecordedRows(limits.sequences),
                                        limits.sequences * AttentionSegments(limits.tokens));
  // A partial result is much larger than its task. Where sequences share so much that they have more
  // partial results, the attention has several parts. The backend serves a draft model too.
  const int most_tasks = MostTasks(limits.sequences, limits.tokens, limits.cache_tokens);
  const int of_a_task =
      RunRows(limits.heads / limits.cache.kv_heads) * AttentionSegments(limits.tokens);
  most_partials_ = std::min(most_partials_, std::max(most_tasks, of_a_task));
  const PassLayout layout(
      {.rows = limits.rows,
       .sequences = limits.sequences,
       .table_entries = sequences * longest_table,
       .embeds = true,
       .scales_queries = true,
       // At most half of a head's dimensions have an angle.
       .angles = std::vector<size_t>(kReservedRopes,
                                     rows * static_cast<size_t>(limits.cache.head_dim) / 2),
       .plan_words = RecordedPlanWords(shape.max_tasks)});
  const std::pair<BackendBuffer*, size_t> buffers[] = {
      {&pass_arrays_, layout.bytes},
      {&plan_words_, MaxAttentionPlanBytes(limits.rows, limits.sequences, limits.tokens)},
      {&partials_, AttentionPartialBytes(most_partials_, limits.heads, limits.cache.head_dim)},
      {&arrivals_, rows * static_cast<size_t>(limits.heads) * sizeof(int32_t)},
      {&copied_rows_, rows * sizeof(int32_t)}};
  for (const auto& [buffer, bytes] : buffers) {
    BATON_RETURN_IF_ERROR(ReserveDeviceMemory(bytes, *buffer));
  }
  return absl::OkStatus();
}

absl::StatusOr<BackendBuffer> CudaBackend::Allocate(size_t bytes) {
  UseDevice();
  return AllocateDeviceMemory(bytes);
}

absl::StatusOr<std::unique_ptr<Weight>> CudaBackend::LoadWeight(const GgufTensor& tensor) {
  UseDevice();
  if (upload_ == nullptr) {
    upload_ = std::make_unique<WeightUpload>(options_.device, options_.load_threads);
  }
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<CudaWeight> weight,
                         CudaWeight::Load(tensor, AllocateDeviceMemory, *upload_));
  return weight;
}

absl::StatusOr<uint64_t> CudaBackend::WeightBytes(const GgufTensor& tensor) const {
  return CudaWeight::DeviceBytes(tensor);
}

absl::StatusOr<std::unique_ptr<StepSampler>> CudaBackend::MakeStepSampler(
    const StepSamplerOptions& options) {
  UseDevice();
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<CudaStepSampler> sampler,
                         CudaStepSampler::Create(options_.device, stream_.get(), options, moves_));
  return sampler;
}

std::unique_ptr<PassRecordings> CudaBackend::MakeRecordings() {
  return std::make_unique<CudaRecordings>(stream_.get(), shape_, moves_);
}

void CudaBackend::PlanRecordedPass(const Pass& pass) {
  PlanAttention(pass.batch->sequences, {}, plan_, cut_, most_partials_);
  // tests/planted_bugs: recording_has_no_room_for_longer_sequences
  const int64_t room = pass.rows() + pass.batch->recorded_tokens / kAttentionSegment;
  shape_ = RecordedShape(pass.rows(), std::max(plan_.task_count, static_cast<int>(room)));
  shape_.scales_queries = !pass.query_scales.empty();
  shape_.parts = static_cast<int>(plan_.part_ends.size());
  plan_.partials = std::min(shape_.max_tasks, most_partials_);
  // There is room for all tasks that the shape may have: the memory must not move in the next pass.
  plan_.words.resize(std::max(plan_.words.size(), RecordedPlanWords(shape_.max_tasks)));
}

void CudaBackend::BeginPass(const Pass& pass) {
  UseDevice();
  upload_.reset();  // weights are loaded before a model's first pass
  int rows = 0;
  for (const BatchSequence& sequence : pass.batch->sequences) {
    BATON_CHECK(sequence.first_row == rows && sequence.row_count > 0,
                "each sequence must have rows, behind those of the sequence before");
    rows += sequence.row_count;
  }
  BATON_CHECK(rows > 0 && (pass.padding_rows == 0 || (pass.recorded && pass.padding_rows > 0)),
              "each row has its sequence");
  batch_ = pass.batch;
  planned_tiles_.reset();
  recorded_ = pass.recorded;
  PassSize size = SizeOf(pass);
  if (recorded_) {
    PlanRecordedPass(pass);
    size.plan_words = plan_.words.size();
  }
  const PassLayout layout(size);
  uint8_t* const arrays = uploads_.Next(layout.bytes);
  FillPass(pass, layout, arrays);
  if (recorded_) std::memcpy(arrays + layout.plan, plan_.words.data(), plan_.bytes());
  if (layout.bytes > pass_arrays_.size_bytes()) {
    // Tables grow a little every few steps, and all recordings go when the memory moves.
    Grow(std::bit_ceil(layout.bytes), pass_arrays_);
  }
  uploads_.Send(layout.bytes, pass_arrays_.data());
  pass_ = PassAt(pass, layout, pass_arrays_.data());
  ropes_ = RopesAt(pass, layout, pass_arrays_.data());
  tokens_ = reinterpret_cast<const InputToken*>(pass_arrays_.data() + layout.tokens);
  token_ids_ = reinterpret_cast<int32_t*>(pass_arrays_.data() + layout.token_ids);
  if (recorded_) {
    work_ = plan_.At(pass_arrays_.data() + layout.plan);
    if (shape_.parts == 1) work_.front().max_tasks = shape_.max_tasks;
  }
}

const int32_t* CudaBackend::UploadIds(absl::Span<const int32_t> ids, BackendBuffer& buffer) {
  const size_t bytes = ids.size() * sizeof(int32_t);
  std::memcpy(uploads_.Next(bytes), ids.data(), bytes);
  Grow(bytes, buffer);
  uploads_.Send(bytes, buffer.data());
  return reinterpret_cast<const int32_t*>(buffer.data());
}

void CudaBackend::Embed(const Weight& table, Tensor out) {
  BATON_CHECK(out.rows == pass_.rows && out.columns == table.columns() &&
                  static_cast<int>(batch_->tokens.size()) == batch_->rows(),
              "one row per token");
  for (const InputToken token : batch_->tokens) {
    BATON_CHECK(token.pending() ? batch_->sampled_ids != nullptr
                                : token.id() >= 0 && token.id() < table.rows(),
                "token id in the vocabulary");
  }
  LaunchTokenIds(tokens_, batch_->sampled_ids, out.rows, token_ids_, stream_.get());
  LaunchEmbed(MatrixOf(table), token_ids_, out, stream_.get());
}

void CudaBackend::Product(Tensor in, absl::Span<const ProductOutput> outputs) {
  Multiply({.in = in}, InputPrecision::kUsual, outputs);
}

void CudaBackend::NormProduct(Tensor in, const float* gain, float epsilon, InputPrecision precision,
                              absl::Span<const ProductOutput> outputs) {
  Multiply({.kind = VectorInput::Kind::kNorm, .in = in, .other = gain, .epsilon = epsilon},
           precision, outputs);
}

void CudaBackend::GatedProduct(GateFunction function, Tensor gate, Tensor up,
                               absl::Span<const ProductOutput> outputs) {
  BATON_CHECK(SameShape(gate, up), "gate and up must have one shape");
  Multiply({.kind = VectorInput::Kind::kGated, .in = gate, .other = up.data, .function = function},
           InputPrecision::kUsual, outputs);
}

void CudaBackend::AddExperts(Tensor in, const float* gain, float epsilon, Tensor router,
                             const Experts& experts, float scale, Tensor out) {
  const auto count = static_cast<size_t>(router.columns);
  BATON_CHECK(SameShape(in, out) && router.rows == in.rows && experts.gate.size() == count &&
                  experts.up.size() == count && experts.down.size() == count && in.rows > 0,
              "the shapes of input, router, experts and output must fit");
  const ExpertMix mix = {.in = in,
                         .gain = gain,
                         .epsilon = epsilon,
                         .router = router,
                         .experts = experts,
                         .scale = scale,
                         .out = out,
                         .terms = ExpertTerms(in.rows, experts),
                         .invariant = options_.deterministic};
  Grow(ExpertScratchBytes(mix), expert_scratch_);
  LaunchAddExperts(mix, expert_scratch_.data(), stream_.get());
}

void CudaBackend::AddBias(const float* bias, Tensor out) {
  LaunchAddBias(bias, out, stream_.get());
}

void CudaBackend::NormGroups(const float* gain, int size, float epsilon, Tensor values) {
  LaunchNormGroups(gain, size, epsilon, values, stream_.get());
}

void CudaBackend::AddNorm(Tensor in, const float* gain, float epsilon, float scale, Tensor out) {
  BATON_CHECK(SameShape(in, out), "input and output must have one shape");
  LaunchAddNorm(in, gain, epsilon, scale, out, stream_.get());
}

void CudaBackend::Scale(float factor, Tensor values) { LaunchScale(factor, values, stream_.get()); }

void CudaBackend::SoftCap(float cap, Tensor values) { LaunchSoftCap(cap, values, stream_.get()); }

CudaRope CudaBackend::RopeOf(int rope) const {
  BATON_CHECK(rope == kNoRope || (rope >= 0 && rope < static_cast<int>(ropes_.size())),
              "a rope of the pass");
  return rope == kNoRope ? CudaRope() : ropes_[static_cast<size_t>(rope)];
}

void CudaBackend::RotateAndAppend(int rope, Tensor queries, Tensor keys, Tensor values,
                                  const KvLayerView& cache) {
  BATON_CHECK(SameShape(keys, values) && keys.columns == cache.kv_heads * cache.head_dim &&
                  queries.rows == keys.rows && queries.rows == pass_.rows,
              "the shapes of queries, keys, values and cache must fit the pass");
  LaunchRotateAndAppend(pass_, RopeOf(rope), queries, keys, values, cache, stream_.get());
}

void CudaBackend::PlanPass(const AttentionTiles& tiles) {
  if (recorded_ || tiles == planned_tiles_) return;
  planned_tiles_ = tiles;
  PlanAttention(batch_->sequences, tiles, plan_, cut_, most_partials_);
  UploadIds(plan_.words, plan_words_);
  work_ = plan_.At(plan_words_.data());
}

CudaAttentionScratch CudaBackend::PrepareAttention(Tensor queries, const KvLayerView& cache) {
  const int heads = queries.columns / cache.head_dim;
  PlanPass(TilesFor(heads, cache));
  Grow(AttentionPartialBytes(plan_.partials, heads, cache.head_dim), partials_);
  Grow(static_cast<size_t>(pass_.rows) * static_cast<size_t>(heads) * sizeof(int32_t), arrivals_);
  return {.partials = reinterpret_cast<float*>(partials_.data()),
          .arrivals = reinterpret_cast<int32_t*>(arrivals_.data())};
}

void CudaBackend::Attention(const AttentionRule& rule, Tensor queries, const KvLayerView& cache,
                            Tensor out) {
  BATON_CHECK(SameShape(queries, out) && queries.rows == pass_.rows &&
                  queries.columns % (cache.kv_heads * cache.head_dim) == 0,
              "queries and output must have the pass's rows, whole groups of query heads");
  const CudaAttentionScratch scratch = PrepareAttention(queries, cache);
  LaunchAttention(pass_, work_, rule, queries, cache, out, scratch, stream_.get());
}

void CudaBackend::AppendAndAttend(int rope, Tensor queries, Tensor keys, Tensor values,
                                  const KvLayerView& cache, const AttentionRule& rule, Tensor out) {
  BATON_CHECK(static_cast<int>(batch_->sequences.size()) == batch_->rows(),
              "sequences of one row each");
  const NewRows rows = {RopeOf(rope), queries, keys, values};
  const CudaAttentionScratch scratch = PrepareAttention(queries, cache);
  if (work_.size() > 1 ||
      !AppendAttentionTakes(rows, work_.front(), cache, limits_.multiprocessors)) {
    RotateAndAppend(rope, queries, keys, values, cache);
    return Attention(rule, queries, cache, out);
  }
  BATON_CHECK(SameShape(queries, out) && SameShape(keys, values) &&
                  keys.columns == cache.kv_heads * cache.head_dim && queries.rows == keys.rows &&
                  queries.rows == pass_.rows,
              "the shapes of queries, keys, values, cache and output must fit the pass");
  LaunchAppendAndAttend(pass_, work_.front(), rule, rows, cache, out, scratch, stream_.get());
}

void CudaBackend::CopyRows(Tensor in, absl::Span<const int> rows, Tensor out) {
  BATON_CHECK(static_cast<int>(rows.size()) == out.rows && in.columns == out.columns,
              "the output must have one row for each copied row, of the input's columns");
  for (int i = 0; i < out.rows; ++i) {
    const int row = rows[static_cast<size_t>(i)];
    BATON_CHECK(row >= i && row < in.rows && (i == 0 || row > rows[static_cast<size_t>(i) - 1]),
                "ascending rows of the input");
  }
  LaunchCopyRows(in, UploadIds(rows, copied_rows_), out, stream_.get());
}

void CudaBackend::Copy(const void* from, size_t bytes, void* to) {
  UseDevice();
  CheckCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_.get()),
            "cudaMemcpyAsync");
}

void CudaBackend::Upload(const void* host, size_t bytes, void* device) {
  UseDevice();
  CheckCuda(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_.get()),
            "cudaMemcpyAsync");
  Synchronize();
}

void CudaBackend::Download(const void* device, size_t bytes, void* host) {
  UseDevice();
  CheckCuda(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_.get()),
            "cudaMemcpyAsync");
  Synchronize();
}

void CudaBackend::Synchronize() {
  UseDevice();
  CheckCuda(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
}

}  // namespace baton
