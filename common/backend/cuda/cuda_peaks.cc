#include "common/backend/cuda/cuda_peaks.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"

#include "common/backend/cuda/device/cuda_error.h"
#include "common/backend/cuda/device/cuda_memory.h"
#include "common/backend/cuda/product/library/gemm.h"
#include "common/backend/cuda/weight/weight_layout.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

CudaElement ElementOf(GgmlType type) {
  if (type == GgmlType::kF32) return CudaElement::kF32;
  return type == GgmlType::kF16 ? CudaElement::kF16 : CudaElement::kBf16;
}

// The median time of `enqueue` with its wait, after one run that does not count. A run is long
// compared with the wait.
absl::StatusOr<double> MedianSeconds(int repetitions, cudaStream_t stream,
                                     absl::FunctionRef<absl::Status()> enqueue) {
  std::vector<double> seconds;
  for (int i = 0; i <= repetitions; ++i) {
    const absl::Time start = SteadyNow();
    BATON_RETURN_IF_ERROR(enqueue());
    CheckCuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    if (i > 0) seconds.push_back(absl::ToDoubleSeconds(SteadyNow() - start));
  }
  std::nth_element(seconds.begin(), seconds.begin() + repetitions / 2, seconds.end());
  return seconds[static_cast<size_t>(repetitions / 2)];
}

absl::StatusOr<double> MeasureCopy(const CudaPeakOptions& options, cudaStream_t stream) {
  BATON_ASSIGN_OR_RETURN(const BackendBuffer from, AllocateDeviceMemory(options.copy_bytes));
  BATON_ASSIGN_OR_RETURN(const BackendBuffer to, AllocateDeviceMemory(options.copy_bytes));
  BATON_ASSIGN_OR_RETURN(const double seconds, MedianSeconds(options.repetitions, stream, [&] {
                           CheckCuda(cudaMemcpyAsync(to.data(), from.data(), options.copy_bytes,
                                                     cudaMemcpyDeviceToDevice, stream),
                                     "cudaMemcpyAsync");
                           return absl::OkStatus();
                         }));
  return 2 * static_cast<double>(options.copy_bytes) / seconds / 1e9;
}

// Fills in elements a little below or above 1. With zeros a GPU takes less power than with other
// numbers, and clocks higher.
void FillWithNumbers(CudaElement element, std::vector<uint8_t>& bytes) {
  const size_t size = ElementBytes(element);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool highest = i % size == size - 1;
    bytes[i] = highest ? 0x3f : static_cast<uint8_t>(i * 0x9e3779b1u >> 24 & 0x7f);
  }
}

absl::StatusOr<double> MeasureGemm(const CudaPeakOptions& options, cudaStream_t stream) {
  const CudaElement element = ElementOf(options.weights_type);
  const auto size = static_cast<size_t>(options.gemm_size);
  std::vector<uint8_t> numbers(size * CudaRowBytes(element, options.gemm_size));
  FillWithNumbers(element, numbers);
  BATON_ASSIGN_OR_RETURN(const BackendBuffer in, AllocateDeviceMemory(numbers.size()));
  BATON_ASSIGN_OR_RETURN(const BackendBuffer weight, AllocateDeviceMemory(numbers.size()));
  BATON_ASSIGN_OR_RETURN(const BackendBuffer out,
                         AllocateDeviceMemory(size * size * sizeof(float)));
  for (const BackendBuffer* operand : {&in, &weight}) {
    CheckCuda(cudaMemcpy(operand->data(), numbers.data(), numbers.size(), cudaMemcpyHostToDevice),
              "cudaMemcpy");
  }
  CheckCuda(cudaDeviceSynchronize(), "cudaMemcpy");  // `stream` does not wait for cudaMemcpy
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<Gemm> gemm, Gemm::Create());
  BATON_ASSIGN_OR_RETURN(const double seconds, MedianSeconds(options.repetitions, stream, [&] {
                           return gemm->Multiply({.in = in.data(),
                                                  .rows = options.gemm_size,
                                                  .weight = {.data = weight.data(),
                                                             .element = element,
                                                             .rows = options.gemm_size,
                                                             .columns = options.gemm_size},
                                                  .out = reinterpret_cast<float*>(out.data()),
                                                  .out_stride = options.gemm_size},
                                                 stream);
                         }));
  const double ops = 2.0 * options.gemm_size * options.gemm_size * options.gemm_size;
  return ops / seconds / 1e9;
}

}  // namespace

absl::StatusOr<CudaPeaks> MeasureCudaPeaks(const CudaPeakOptions& options) {
  const CudaStream stream = MakeCudaStream();
  CudaPeaks peaks;
  BATON_ASSIGN_OR_RETURN(peaks.copy_gb_s, MeasureCopy(options, stream.get()));
  BATON_ASSIGN_OR_RETURN(peaks.gemm_gflops, MeasureGemm(options, stream.get()));
  return peaks;
}

}  // namespace baton
