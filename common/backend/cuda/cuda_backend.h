// The CUDA backend: the operations of common/backend/backend.h on one NVIDIA GPU.
#pragma once

#include <cuda_runtime.h>

#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/backend/backend.h"
#include "common/backend/cpu/machine/thread_pool.h"
#include "common/backend/cuda/attention/attention_plan.h"
#include "common/backend/cuda/device/cuda_copies.h"
#include "common/backend/cuda/device/cuda_memory.h"
#include "common/backend/cuda/device/operands.h"
#include "common/backend/cuda/pass/pass_shape.h"
#include "common/backend/cuda/pass/upload_ring.h"
#include "common/backend/cuda/product/library/gemm.h"
#include "common/backend/cuda/product/product_dispatch.h"
#include "common/backend/cuda/product/product_operands.h"
#include "common/backend/cuda/product/product_terms.h"
#include "common/backend/cuda/sampling/cuda_step_sampler.h"
#include "common/backend/cuda/weight/weight_upload.h"

namespace baton {

// Operations are enqueued on one stream and return at once. Only Allocate, LoadWeight, Upload,
// Download and Synchronize wait. A CUDA call that fails ends the process (cuda_error.h).
//
// product_dispatch.h says which kernels multiply: those of this backend, or for many rows the
// library, which sees the input rounded to the weights' type (quantised weights and their input
// rounded to BF16). So the bits of a row depend on how many rows a pass has, and InputPrecision
// changes nothing. Without `library` the kernels of invariant_product.h take its products too: they
// need more time for many rows.
//
// Experts are computed by the kernels of expert_mixer.h in any case, for any number of rows. Their
// input is two BF16 terms, unless there are many rows and the weights have no more than one.
//
// `deterministic`: products are those of invariant_product.h, and attention's work is cut alike for
// all rows (attention.h); no library is needed. Every operation then gives a row the same bits in
// every pass, on every device of one compute capability.
//
// `load_threads` copy the rows of weights for the device. They are there from the first
// LoadWeight until the first pass after it.
//
// Thread rule: see Backend. BeginPass and every operation that waits make the device current on the
// calling thread.
struct CudaBackendOptions {
  int device = 0;
  std::string description;
  std::string numerics;
  bool deterministic = false;
  bool library = true;
  PoolThreads load_threads = {};
};

class CudaBackend final : public Backend {
 public:
  // Returns NOT_FOUND or RESOURCE_EXHAUSTED as Gemm::Create does. REQUIRES: a device that
  // MakeCudaBackend accepts is current on the calling thread.
  static absl::StatusOr<std::unique_ptr<CudaBackend>> Create(CudaBackendOptions options);
  ~CudaBackend() override;

  const char* Name() const override { return "cuda"; }
  std::string Numerics() const override { return options_.numerics; }
  std::string Description() const override { return options_.description; }
  bool host_memory() const override { return false; }
  int steps_ahead() const override { return CudaStepSampler::kStepsAhead; }
  uint64_t FreeMemoryBytes() const override { return MemoryUse().free; }
  DeviceMemoryUse MemoryUse() const override;
  absl::Status ReservePasses(const PassLimits& limits) override;
  absl::StatusOr<BackendBuffer> Allocate(size_t bytes) override;
  absl::StatusOr<std::unique_ptr<Weight>> LoadWeight(const GgufTensor& tensor) override;
  absl::StatusOr<uint64_t> WeightBytes(const GgufTensor& tensor) const override;

  absl::StatusOr<std::unique_ptr<StepSampler>> MakeStepSampler(
      const StepSamplerOptions& options) override;

  std::unique_ptr<PassRecordings> MakeRecordings() override;

  void BeginPass(const Pass& pass) override;
  void Embed(const Weight& table, Tensor out) override;
  void Product(Tensor in, absl::Span<const ProductOutput> outputs) override;
  void NormProduct(Tensor in, const float* gain, float epsilon, InputPrecision precision,
                   absl::Span<const ProductOutput> outputs) override;
  void GatedProduct(GateFunction function, Tensor gate, Tensor up,
                    absl::Span<const ProductOutput> outputs) override;
  void AddExperts(Tensor in, const float* gain, float epsilon, Tensor router,
                  const Experts& experts, float scale, Tensor out) override;
  void AddBias(const float* bias, Tensor out) override;
  void NormGroups(const float* gain, int size, float epsilon, Tensor values) override;
  void AddNorm(Tensor in, const float* gain, float epsilon, float scale, Tensor out) override;
  void Scale(float factor, Tensor values) override;
  void SoftCap(float cap, Tensor values) override;
  void RotateAndAppend(int rope, Tensor queries, Tensor keys, Tensor values,
                       const KvLayerView& cache) override;
  void Attention(const AttentionRule& rule, Tensor queries, const KvLayerView& cache,
                 Tensor out) override;
  void AppendAndAttend(int rope, Tensor queries, Tensor keys, Tensor values,
                       const KvLayerView& cache, const AttentionRule& rule, Tensor out) override;
  void CopyRows(Tensor in, absl::Span<const int> rows, Tensor out) override;

  void Copy(const void* from, size_t bytes, void* to) override;
  void Upload(const void* host, size_t bytes, void* device) override;
  void Download(const void* device, size_t bytes, void* host) override;
  void Synchronize() override;
  DeviceCopies* device_copies() override { return &copies_; }

 private:
  CudaBackend(CudaBackendOptions options, std::unique_ptr<Gemm> gemm);

  void UseDevice() const;
  void Grow(size_t bytes, BackendBuffer& buffer) { GrowDeviceMemory(bytes, buffer, moves_); }
  // Copies `ids` to `buffer`, in the stream's order. Returns where they lie on the device.
  const int32_t* UploadIds(absl::Span<const int32_t> ids, BackendBuffer& buffer);
  // out = input x weight^T, or out += scale * input x weight^T, for every output.
  void Multiply(const VectorInput& input, InputPrecision precision,
                absl::Span<const ProductOutput> outputs);
  ProductKernel KernelFor(CudaElement element, int rows) const;
  void MultiplyBy(ProductKernel kernel, const VectorInput& input,
                  std::span<const VectorOutput> outputs);
  void MultiplyVector(VectorInput input, std::span<const VectorOutput> outputs);
  void MultiplyTwoRows(const VectorInput& input, std::span<const VectorOutput> outputs);
  void MultiplyParts(const VectorInput& input, int terms, std::span<const VectorOutput> outputs);
  void MultiplyTiles(const VectorInput& input, std::span<const VectorOutput> outputs);
  void MultiplyByLibrary(const VectorInput& input, std::span<const VectorOutput> outputs);
  int ExpertTerms(int rows, const Experts& experts) const;  // ExpertMix::terms
  // Puts the input, normalised or gated, into product_input_.
  void PrepareInput(const VectorInput& input, CudaElement element);
  ProductTerms PrepareTerms(const VectorInput& input, int terms);
  // Reserves memory to dequantise some rows of each weight to.
  void ReserveDequantised(std::span<const VectorOutput> outputs);
  CudaRope RopeOf(int rope) const;
  // Plans the pass's attention and reserves its scratch memory.
  CudaAttentionScratch PrepareAttention(Tensor queries, const KvLayerView& cache);
  // Plans the pass's attention, unless it is recorded or planned for such tiles already.
  void PlanPass(const AttentionTiles& tiles);
  // Finds the shape that a recorded pass shares with others. Its plan depends on no tiles.
  void PlanRecordedPass(const Pass& pass);

  const CudaBackendOptions options_;
  const DeviceLimits limits_;
  const AttentionCut cut_;
  const CudaStream stream_;
  UploadRing uploads_;
  CudaCopies copies_;
  const std::unique_ptr<Gemm> gemm_;      // null: invariant_product.h takes its place
  std::unique_ptr<WeightUpload> upload_;  // null unless weights are being loaded

  MemoryMoves moves_;  // moves of memory that may be among the arguments of a recorded operation

  const Batch* batch_ = nullptr;  // batch of the pass; borrowed until the next BeginPass
  bool recorded_ = false;         // whether the pass is recorded
  PassShape shape_;               // shape of the pass, if recorded
  BackendBuffer pass_arrays_;     // in device memory, as all buffers here
  CudaPass pass_;
  std::vector<CudaRope> ropes_;
  const InputToken* tokens_ = nullptr;  // the tokens in pass_arrays_
  int32_t* token_ids_ = nullptr;        // the room for their ids in pass_arrays_
  AttentionPlan plan_;
  std::optional<AttentionTiles> planned_tiles_;  // tiles of plan_; none: it is another pass's
  // The words of plan_ if the pass is not recorded; those of a recorded one are in pass_arrays_.
  BackendBuffer plan_words_;
  std::vector<AttentionWork> work_;  // its parts
  // Partial results that ReservePasses has taken memory for.
  int most_partials_ = std::numeric_limits<int>::max();
  BackendBuffer copied_rows_;
  // The input of the product that is enqueued: ProductTerms, or [rows, columns] of a weight's
  // element type. One memory for both, so that the largest step has taken what smaller ones need.
  BackendBuffer product_input_;
  BackendBuffer product_sums_;  // SplitScratch
  BackendBuffer dequantised_;
  BackendBuffer expert_scratch_;
  BackendBuffer partials_;
  BackendBuffer arrivals_;
};

}  // namespace baton
