// The StepSampler of a device. Only one token id per row comes back, and logprobs where asked for.
// Tokens that are known are scored as rows that have sampled them.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/backend/cuda/device/cuda_memory.h"
#include "common/backend/cuda/pass/upload_ring.h"
#include "common/backend/cuda/sampling/sampler.h"
#include "common/backend/cuda/sampling/sampler_rows.h"
#include "common/backend/step_sampler.h"

namespace baton {

// Begin uploads how the rows are sampled, Sample launches kernels, End has the results copied to
// pinned memory. Only Take waits, for the copy of its step. Device and stream are the backend's.
class CudaStepSampler final : public StepSampler {
 public:
  static constexpr int kStepsAhead = 1;

  static absl::StatusOr<std::unique_ptr<CudaStepSampler>> Create(int device, cudaStream_t stream,
                                                                 const StepSamplerOptions& options,
                                                                 MemoryMoves& moves);
  // Waits for the stream.
  ~CudaStepSampler() override;

  void Begin(absl::Span<const SamplingRow> rows) override;
  // `logits` may have more rows than the step, up to max_rows. The tokens of the extra rows mean
  // nothing and are dropped.
  void Sample(int first_row, Tensor logits) override;
  void Score(absl::Span<const ScoredToken> tokens, Tensor logits) override;
  void End() override;
  std::vector<absl::StatusOr<OutputToken>> Take() override;
  std::vector<absl::StatusOr<TokenLogprobs>> TakeScores() override;
  const int32_t* sampled_ids() const override;

 private:
  // The results of a step, in pinned memory, and the rows that it sampled.
  struct Result {
    BackendBuffer sampled;   // token_ids [max_rows], errors [max_rows]
    BackendBuffer logprobs;  // SamplerLogprobs [max_rows]
    CudaEvent copied;
    std::vector<SamplerRow> rows;
    // Results of rows that were scored together: errors [kRowsTogether], SamplerLogprobs
    // [kRowsTogether]. Results that the step does not need are kept for later steps.
    std::vector<BackendBuffer> scores;
    std::vector<int> score_rows;  // rows in each of `scores` that the step has filled
  };

  CudaStepSampler(int device, cudaStream_t stream, const StepSamplerOptions& options,
                  MemoryMoves& moves);
  absl::Status Allocate(const std::vector<int32_t>& end_of_generation_ids);
  // `rows` are those of the step: packed has max_rows.
  void Upload(const SamplerRows& packed, size_t rows);
  void UploadMasks(int first_row, int rows);
  void ScoreTogether(absl::Span<const ScoredToken> tokens, const float* logits);
  Result& result_of_step() { return results_[ended_ % results_.size()]; }

  const int device_;
  const cudaStream_t stream_;
  MemoryMoves& moves_;
  const int vocab_size_;
  const int max_rows_;
  const int counts_capacity_;  // tokens that a slot of counts_ holds
  CountsSlots slots_;
  UploadedLists uploaded_;
  UploadRing uploads_;

  // Device memory, shapes in elements.
  BackendBuffer rows_;         // SamplerRow [max_rows]
  BackendBuffer biases_;       // biases of a step's rows
  BackendBuffer stop_ids_;     // stop ids of a step's rows
  BackendBuffer end_ids_;      // [end_id_count_]
  BackendBuffer masks_;        // [max_rows, mask words]
  BackendBuffer counts_;       // [slots, counts_capacity]
  BackendBuffer count_sizes_;  // [slots]
  BackendBuffer scratch_;      // scratch memory of kRowsTogether rows
  BackendBuffer sampled_;      // token_ids [max_rows], errors [max_rows]
  BackendBuffer logprobs_;     // [max_rows]
  BackendBuffer score_rows_;   // SamplerRow [kRowsTogether], token_ids [kRowsTogether]
  BackendBuffer scores_;       // errors [kRowsTogether], SamplerLogprobs [kRowsTogether]
  int end_id_count_ = 0;

  std::array<Result, kStepsAhead + 1> results_;
  std::vector<SamplerRow> step_rows_;        // rows of the step that has begun
  std::vector<const uint32_t*> step_masks_;  // their masks, null if a row has none; borrowed
  uint64_t ended_ = 0;                       // steps that were ended
  uint64_t taken_ = 0;                       // steps that were taken
};

}  // namespace baton
