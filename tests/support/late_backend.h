// A backend that looks as if its memory were a device's: the CPU backend with LateCopies.
#pragma once

#include <memory>
#include <string>

#include "common/backend/backend.h"
#include "tests/support/late_copies.h"

namespace baton {

// Computes what `inner` computes. Its thread rule is that of `inner`.
class LateBackend final : public Backend {
 public:
  // kNear: Allocate gives usable addresses, and everything works. kFar: Allocate gives addresses
  // that only copies can use, for tests that compute nothing.
  enum class Memory { kNear, kFar };
  LateBackend(std::unique_ptr<Backend> inner, Memory memory, uint64_t seed);

  LateCopies& copies() { return copies_; }
  // The host's address of the bytes at a device's address.
  uint8_t* Near(uint8_t* device) const { return device - distance_; }

  const char* Name() const override { return inner_->Name(); }
  std::string Numerics() const override { return inner_->Numerics(); }
  std::string Description() const override { return inner_->Description(); }
  bool host_memory() const override { return false; }
  int steps_ahead() const override { return inner_->steps_ahead(); }
  uint64_t FreeMemoryBytes() const override { return inner_->FreeMemoryBytes(); }
  DeviceMemoryUse MemoryUse() const override { return inner_->MemoryUse(); }
  absl::Status ReservePasses(const PassLimits& limits) override {
    return inner_->ReservePasses(limits);
  }
  absl::StatusOr<BackendBuffer> Allocate(size_t bytes) override;
  absl::StatusOr<std::unique_ptr<Weight>> LoadWeight(const GgufTensor& tensor) override {
    return inner_->LoadWeight(tensor);
  }
  absl::StatusOr<uint64_t> WeightBytes(const GgufTensor& tensor) const override {
    return inner_->WeightBytes(tensor);
  }
  absl::StatusOr<std::unique_ptr<StepSampler>> MakeStepSampler(
      const StepSamplerOptions& options) override {
    return inner_->MakeStepSampler(options);
  }
  std::unique_ptr<PassRecordings> MakeRecordings() override { return inner_->MakeRecordings(); }
  void BeginPass(const Pass& pass) override { inner_->BeginPass(pass); }
  void Embed(const Weight& table, Tensor out) override { inner_->Embed(table, out); }
  void Product(Tensor in, absl::Span<const ProductOutput> outputs) override {
    inner_->Product(in, outputs);
  }
  void NormProduct(Tensor in, const float* gain, float epsilon, InputPrecision precision,
                   absl::Span<const ProductOutput> outputs) override {
    inner_->NormProduct(in, gain, epsilon, precision, outputs);
  }
  void GatedProduct(GateFunction function, Tensor gate, Tensor up,
                    absl::Span<const ProductOutput> outputs) override {
    inner_->GatedProduct(function, gate, up, outputs);
  }
  void AddExperts(Tensor in, const float* gain, float epsilon, Tensor router,
                  const Experts& experts, float scale, Tensor out) override {
    inner_->AddExperts(in, gain, epsilon, router, experts, scale, out);
  }
  void AddBias(const float* bias, Tensor out) override { inner_->AddBias(bias, out); }
  void NormGroups(const float* gain, int size, float epsilon, Tensor values) override {
    inner_->NormGroups(gain, size, epsilon, values);
  }
  void AddNorm(Tensor in, const float* gain, float epsilon, float scale, Tensor out) override {
    inner_->AddNorm(in, gain, epsilon, scale, out);
  }
  void Scale(float factor, Tensor values) override { inner_->Scale(factor, values); }
  void SoftCap(float cap, Tensor values) override { inner_->SoftCap(cap, values); }
  void RotateAndAppend(int rope, Tensor queries, Tensor keys, Tensor values,
                       const KvLayerView& cache) override {
    inner_->RotateAndAppend(rope, queries, keys, values, cache);
  }
  void Attention(const AttentionRule& rule, Tensor queries, const KvLayerView& cache,
                 Tensor out) override {
    inner_->Attention(rule, queries, cache, out);
  }
  void CopyRows(Tensor in, absl::Span<const int> rows, Tensor out) override {
    inner_->CopyRows(in, rows, out);
  }
  void Copy(const void* from, size_t bytes, void* to) override {
    inner_->Copy(static_cast<const uint8_t*>(from) - distance_, bytes,
                 Near(static_cast<uint8_t*>(to)));
  }
  void Upload(const void* host, size_t bytes, void* device) override {
    inner_->Upload(host, bytes, device);
  }
  void Download(const void* device, size_t bytes, void* host) override {
    inner_->Download(device, bytes, host);
  }
  void Synchronize() override { inner_->Synchronize(); }
  DeviceCopies* device_copies() override { return &copies_; }

 private:
  const std::unique_ptr<Backend> inner_;
  const uintptr_t distance_;
  LateCopies copies_;
};

}  // namespace baton
