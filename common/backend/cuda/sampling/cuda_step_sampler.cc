#include "common/backend/cuda/sampling/cuda_step_sampler.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/backend/cuda/device/cuda_error.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/base/token_mask.h"

namespace baton {
namespace {

// Rows that one launch samples; bounds the scratch memory.
constexpr int kRowsTogether = 64;
// Bytes that a step's lists have from the start, so that they seldom grow.
constexpr size_t kLeastListBytes = size_t{16} << 10;
constexpr size_t kScoreBytes = kRowsTogether * (sizeof(SamplerError) + sizeof(SamplerLogprobs));
static_assert(kRowsTogether * sizeof(SamplerError) % alignof(SamplerLogprobs) == 0);

template <class T>
T* As(const BackendBuffer& buffer) {
  return reinterpret_cast<T*>(buffer.data());
}

template <class T>
size_t BytesOf(const std::vector<T>& values) {
  return values.size() * sizeof(T);
}

absl::Status Allocate(size_t bytes, BackendBuffer& buffer) {
  BATON_ASSIGN_OR_RETURN(buffer, AllocateDeviceMemory(bytes));
  return absl::OkStatus();
}

TokenLogprobs ToLogprobs(const SamplerLogprobs& from) {
  TokenLogprobs to = {.logprob = from.logprob};
  for (int i = 0; i < from.top_count; ++i) {
    to.top.push_back({from.top_token_ids[i], from.top_logprobs[i]});
  }
  return to;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaStepSampler>> CudaStepSampler::Create(
    int device, cudaStream_t stream, const StepSamplerOptions& options, MemoryMoves& moves) {
  std::unique_ptr<CudaStepSampler> sampler(new CudaStepSampler(device, stream, options, moves));
  BATON_RETURN_IF_ERROR(sampler->Allocate(options.end_of_generation_ids));
  return sampler;
}

CudaStepSampler::CudaStepSampler(int device, cudaStream_t stream, const StepSamplerOptions& options,
                                 MemoryMoves& moves)
    : device_(device),
      stream_(stream),
      moves_(moves),
      vocab_size_(options.vocab_size),
      max_rows_(options.max_rows),
      counts_capacity_(std::min(options.vocab_size, options.max_model_len)),
      slots_(options.max_rows),
      uploads_(stream) {}

CudaStepSampler::~CudaStepSampler() {
  CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

absl::Status CudaStepSampler::Allocate(const std::vector<int32_t>& end_of_generation_ids) {
  const auto rows = static_cast<size_t>(max_rows_);
  const size_t sampled_bytes = rows * (sizeof(int32_t) + sizeof(SamplerError));
  end_id_count_ = static_cast<int>(end_of_generation_ids.size());
  BATON_RETURN_IF_ERROR(baton::Allocate(rows * sizeof(SamplerRow), rows_));
  BATON_RETURN_IF_ERROR(baton::Allocate(kLeastListBytes, biases_));
  BATON_RETURN_IF_ERROR(baton::Allocate(kLeastListBytes, stop_ids_));
  BATON_RETURN_IF_ERROR(baton::Allocate(BytesOf(end_of_generation_ids), end_ids_));
  BATON_RETURN_IF_ERROR(baton::Allocate(rows * MaskWords(vocab_size_) * sizeof(uint32_t), masks_));
  BATON_RETURN_IF_ERROR(
      baton::Allocate(rows * static_cast<size_t>(counts_capacity_) * sizeof(TokenCount), counts_));
  BATON_RETURN_IF_ERROR(baton::Allocate(rows * sizeof(int32_t), count_sizes_));
  BATON_RETURN_IF_ERROR(baton::Allocate(
      SamplerScratchBytes(std::min(max_rows_, kRowsTogether), vocab_size_), scratch_));
  BATON_RETURN_IF_ERROR(baton::Allocate(sampled_bytes, sampled_));
  BATON_RETURN_IF_ERROR(baton::Allocate(rows * sizeof(SamplerLogprobs), logprobs_));
  BATON_RETURN_IF_ERROR(
      baton::Allocate(kRowsTogether * (sizeof(SamplerRow) + sizeof(int32_t)), score_rows_));
  BATON_RETURN_IF_ERROR(baton::Allocate(kScoreBytes, scores_));
  for (Result& result : results_) {
    BATON_ASSIGN_OR_RETURN(result.sampled, AllocatePinnedMemory(sampled_bytes));
    BATON_ASSIGN_OR_RETURN(result.logprobs, AllocatePinnedMemory(rows * sizeof(SamplerLogprobs)));
    result.copied = MakeCudaEvent();
  }
  if (end_of_generation_ids.empty()) return absl::OkStatus();
  std::memcpy(uploads_.Next(BytesOf(end_of_generation_ids)), end_of_generation_ids.data(),
              BytesOf(end_of_generation_ids));
  uploads_.Send(BytesOf(end_of_generation_ids), end_ids_.data());
  return absl::OkStatus();
}

void CudaStepSampler::Begin(absl::Span<const SamplingRow> rows) {
  CheckCuda(cudaSetDevice(device_), "cudaSetDevice");
  SamplerRows packed = PackSamplerRows(rows, max_rows_, slots_);
  Upload(packed, rows.size());
  packed.rows.resize(rows.size());
  step_rows_ = std::move(packed.rows);
  step_masks_.clear();
  result_of_step().score_rows.clear();
  for (const SamplingRow& row : rows) step_masks_.push_back(row.mask);
}

void CudaStepSampler::Upload(const SamplerRows& packed, size_t rows) {
  GrowDeviceMemory(BytesOf(packed.biases), biases_, moves_);
  GrowDeviceMemory(BytesOf(packed.stop_ids), stop_ids_, moves_);
  std::vector<uint8_t> host;
  std::vector<UploadRing::Part> parts;
  const auto add = [&](const void* data, size_t bytes, void* device) {
    if (bytes == 0) return;
    parts.push_back({.offset = host.size(), .bytes = bytes, .device = device});
    const auto* const first = static_cast<const uint8_t*>(data);
    host.insert(host.end(), first, first + bytes);
  };
  if (uploaded_.Replace(packed, rows)) {
    add(packed.rows.data(), BytesOf(packed.rows), rows_.data());
    add(packed.biases.data(), BytesOf(packed.biases), biases_.data());
    add(packed.stop_ids.data(), BytesOf(packed.stop_ids), stop_ids_.data());
  }
  for (const SamplerRows::Fill& fill : packed.fills) {
    std::vector<TokenCount> counts;
    for (const auto& [id, count] : fill.counts->output_counts()) counts.push_back({id, count});
    const auto size = static_cast<int32_t>(counts.size());
    BATON_CHECK(size <= counts_capacity_, "no more tokens than a sequence has");
    add(counts.data(), BytesOf(counts),
        As<TokenCount>(counts_) +
            static_cast<size_t>(fill.slot) * static_cast<size_t>(counts_capacity_));
    add(&size, sizeof(size), As<int32_t>(count_sizes_) + fill.slot);
  }
  if (parts.empty()) return;
  std::memcpy(uploads_.Next(host.size()), host.data(), host.size());
  uploads_.Send(parts);
}

// Uploads the masks of those rows that have one.
void CudaStepSampler::UploadMasks(int first_row, int rows) {
  const size_t words = MaskWords(vocab_size_);
  const size_t bytes = words * sizeof(uint32_t);
  std::vector<size_t> masked;
  const size_t end = std::min(static_cast<size_t>(first_row + rows), step_masks_.size());
  for (auto row = static_cast<size_t>(first_row); row < end; ++row) {
    if (step_masks_[row] != nullptr) masked.push_back(row);
  }
  if (masked.empty()) return;
  uint8_t* const host = uploads_.Next(masked.size() * bytes);
  std::vector<UploadRing::Part> parts;
  for (const size_t row : masked) {
    parts.push_back({.offset = parts.size() * bytes,
                     .bytes = bytes,
                     .device = As<uint32_t>(masks_) + row * words});
    std::memcpy(host + parts.back().offset, step_masks_[row], bytes);
  }
  uploads_.Send(parts);
}

void CudaStepSampler::Sample(int first_row, Tensor logits) {
  BATON_CHECK(first_row + logits.rows <= max_rows_ && logits.columns == vocab_size_,
              "rows of the step");
  UploadMasks(first_row, logits.rows);
  auto* const token_ids = As<int32_t>(sampled_);
  auto* const errors = reinterpret_cast<SamplerError*>(token_ids + max_rows_);
  for (int done = 0; done < logits.rows; done += kRowsTogether) {
    const int row = first_row + done;
    LaunchSample({.rows = std::min(kRowsTogether, logits.rows - done),
                  .vocab_size = vocab_size_,
                  .logits = logits.Row(done),
                  .params = As<SamplerRow>(rows_) + row,
                  .biases = As<LogitBias>(biases_),
                  .stop_ids = As<int32_t>(stop_ids_),
                  .end_ids = As<int32_t>(end_ids_),
                  .end_id_count = end_id_count_,
                  .masks = As<uint32_t>(masks_) + static_cast<size_t>(row) * MaskWords(vocab_size_),
                  .counts_capacity = counts_capacity_,
                  .counts = As<TokenCount>(counts_),
                  .count_sizes = As<int32_t>(count_sizes_),
                  .scratch = scratch_.data(),
                  .token_ids = token_ids + row,
                  .errors = errors + row,
                  .logprobs = As<SamplerLogprobs>(logprobs_) + row},
                 SamplerShape(), stream_);
  }
}

void CudaStepSampler::Score(absl::Span<const ScoredToken> tokens, Tensor logits) {
  BATON_CHECK(tokens.size() == static_cast<size_t>(logits.rows) && logits.columns == vocab_size_,
              "a row for each token");
  const auto together = static_cast<size_t>(std::min(max_rows_, kRowsTogether));
  for (size_t done = 0; done < tokens.size(); done += together) {
    ScoreTogether(tokens.subspan(done, together), logits.Row(static_cast<int>(done)));
  }
}

void CudaStepSampler::ScoreTogether(absl::Span<const ScoredToken> tokens, const float* logits) {
  auto* const rows =
      reinterpret_cast<SamplerRow*>(uploads_.Next(tokens.size() * sizeof(SamplerRow)));
  for (size_t i = 0; i < tokens.size(); ++i) {
    rows[i] = {.top_logprobs = tokens[i].top_count, .scored_token = tokens[i].token_id};
  }
  uploads_.Send(tokens.size() * sizeof(SamplerRow), score_rows_.data());
  auto* const errors = As<SamplerError>(scores_);
  LaunchSample(
      {.rows = static_cast<int>(tokens.size()),
       .vocab_size = vocab_size_,
       .logits = logits,
       .params = As<SamplerRow>(score_rows_),
       .scratch = scratch_.data(),
       .token_ids = reinterpret_cast<int32_t*>(As<SamplerRow>(score_rows_) + kRowsTogether),
       .errors = errors,
       .logprobs = reinterpret_cast<SamplerLogprobs*>(errors + kRowsTogether)},
      SamplerShape(), stream_);
  Result& result = result_of_step();
  if (result.score_rows.size() == result.scores.size()) {
    absl::StatusOr<BackendBuffer> memory = AllocatePinnedMemory(kScoreBytes);
    BATON_CHECK(memory.ok(), "pinned memory for log probabilities");
    result.scores.push_back(*std::move(memory));
  }
  CheckCuda(cudaMemcpyAsync(result.scores[result.score_rows.size()].data(), scores_.data(),
                            kScoreBytes, cudaMemcpyDeviceToHost, stream_),
            "cudaMemcpyAsync");
  result.score_rows.push_back(static_cast<int>(tokens.size()));
}

void CudaStepSampler::End() {
  BATON_CHECK(ended_ - taken_ <= kStepsAhead, "steps that are not taken");
  Result& result = results_[ended_++ % results_.size()];
  result.rows = std::move(step_rows_);
  const auto copy = [&](const BackendBuffer& from, size_t bytes, const BackendBuffer& to) {
    CheckCuda(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToHost, stream_),
              "cudaMemcpyAsync");
  };
  if (!result.rows.empty()) copy(sampled_, sampled_.size_bytes(), result.sampled);
  const bool logprobs = std::any_of(result.rows.begin(), result.rows.end(),
                                    [](const SamplerRow& row) { return row.top_logprobs >= 0; });
  if (logprobs) copy(logprobs_, result.rows.size() * sizeof(SamplerLogprobs), result.logprobs);
  CheckCuda(cudaEventRecord(result.copied.get(), stream_), "cudaEventRecord");
}

std::vector<absl::StatusOr<OutputToken>> CudaStepSampler::Take() {
  BATON_CHECK(taken_ < ended_, "a step that was not taken");
  CheckCuda(cudaSetDevice(device_), "cudaSetDevice");
  const Result& result = results_[taken_++ % results_.size()];
  CheckCuda(cudaEventSynchronize(result.copied.get()), "cudaEventSynchronize");
  const auto* const token_ids = As<int32_t>(result.sampled);
  const auto* const errors = reinterpret_cast<const SamplerError*>(token_ids + max_rows_);
  std::vector<absl::StatusOr<OutputToken>> tokens;
  for (size_t i = 0; i < result.rows.size(); ++i) {
    const SamplerRow& row = result.rows[i];
    BATON_CHECK(errors[i] != SamplerError::kCountsFull, "room for each token of a sequence");
    if (errors[i] == SamplerError::kLogitNotFinite) {
      tokens.push_back(LogitNotFinite(row.output_index));
      continue;
    }
    if (errors[i] == SamplerError::kAllMasked) {
      tokens.push_back(AllMasked());
      continue;
    }
    OutputToken token = {.output_index = row.output_index, .token_id = token_ids[i]};
    if (row.top_logprobs >= 0) token.logprobs = ToLogprobs(As<SamplerLogprobs>(result.logprobs)[i]);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::vector<absl::StatusOr<TokenLogprobs>> CudaStepSampler::TakeScores() {
  BATON_CHECK(taken_ > 0, "a step that was taken");
  const Result& result = results_[(taken_ - 1) % results_.size()];
  std::vector<absl::StatusOr<TokenLogprobs>> scores;
  for (size_t i = 0; i < result.score_rows.size(); ++i) {
    const auto* const errors = As<SamplerError>(result.scores[i]);
    const auto* const logprobs = reinterpret_cast<const SamplerLogprobs*>(errors + kRowsTogether);
    for (int row = 0; row < result.score_rows[i]; ++row) {
      if (errors[row] == SamplerError::kNone) {
        scores.push_back(ToLogprobs(logprobs[row]));
      } else {
        scores.push_back(PromptLogitNotFinite());
      }
    }
  }
  return scores;
}

const int32_t* CudaStepSampler::sampled_ids() const { return As<int32_t>(sampled_); }

}  // namespace baton
