#include "common/backend/cuda/device/cuda_copies.h"

#include <utility>

#include "common/backend/cuda/device/cuda_error.h"

namespace baton {

CudaCopies::CudaCopies(int device, cudaStream_t operations)
    : device_(device),
      operations_(operations),
      to_host_(device, cudaMemcpyDeviceToHost,
               [this](cudaStream_t stream, uint64_t mark) { WaitFor(stream, mark); }),
      to_device_(device, cudaMemcpyHostToDevice, nullptr) {
  for (CudaEvent& mark : marks_) mark = MakeCudaEvent();
}

absl::StatusOr<BackendBuffer> CudaCopies::AllocatePinned(size_t bytes) {
  CheckCuda(cudaSetDevice(device_), "cudaSetDevice");
  return AllocatePinnedMemory(bytes);
}

uint64_t CudaCopies::Mark() {
  const std::lock_guard lock(mutex_);
  const uint64_t mark = ++last_mark_;
  CheckCuda(cudaEventRecord(marks_[mark % kMarks].get(), operations_), "cudaEventRecord");
  return mark;
}

void CudaCopies::WaitFor(cudaStream_t stream, uint64_t mark) {
  const std::lock_guard lock(mutex_);
  CheckCuda(cudaStreamWaitEvent(stream, marks_[mark % kMarks].get(), 0), "cudaStreamWaitEvent");
}

void CudaCopies::ToHost(absl::Span<const DeviceCopy> copies, uint64_t after, Done done) {
  to_host_.Add(copies, after, std::move(done));
}

void CudaCopies::ToDevice(absl::Span<const DeviceCopy> copies, Done done) {
  to_device_.Add(copies, 0, std::move(done));
}

}  // namespace baton
