// The CPU backend: the operations of common/backend/backend.h on a pool of threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/backend/backend.h"
#include "common/backend/cpu/attention/attention.h"
#include "common/backend/cpu/experts/expert_mixer.h"
#include "common/backend/cpu/kernels/kernels.h"
#include "common/backend/cpu/machine/memory.h"
#include "common/backend/cpu/machine/thread_pool.h"
#include "common/backend/cpu/product/product.h"
#include "common/backend/cpu/product/product_input.h"
#include "common/backend/cpu/simd/isa.h"

namespace baton {

// The operations are done when they return. Thread rule: see Backend.
class CpuBackend final : public Backend {
 public:
  // REQUIRES: CpuHas(isa), threads >= 1. `cpus` is as in ThreadPool.
  CpuBackend(CpuIsa isa, int threads, std::vector<int> cpus);

  const char* Name() const override { return "cpu"; }
  std::string Numerics() const override { return "cpu"; }
  std::string Description() const override;
  bool host_memory() const override { return true; }
  int steps_ahead() const override { return 0; }
  uint64_t FreeMemoryBytes() const override;
  DeviceMemoryUse MemoryUse() const override { return {}; }
  absl::Status ReservePasses(const PassLimits&) override { return absl::OkStatus(); }
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
  void CopyRows(Tensor in, absl::Span<const int> rows, Tensor out) override;

  void Copy(const void* from, size_t bytes, void* to) override;
  void Upload(const void* host, size_t bytes, void* device) override;
  void Download(const void* device, size_t bytes, void* host) override;
  void Synchronize() override {}

 private:
  void Multiply(const ProductInputArgs& input, absl::Span<const ProductOutput> outputs);

  const CpuIsa isa_;
  const CpuKernels& kernels_;
  CpuMemory memory_;
  ThreadPool pool_;
  Pass pass_;
  ProductInput product_input_;
  std::vector<ProductScratch> product_scratch_;  // [threads]
  ExpertMixer expert_mixer_;
  AttentionScratch attention_scratch_;
};

}  // namespace baton
