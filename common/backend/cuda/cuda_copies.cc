#include "common/backend/cuda/cuda_copies.h"

#include <utility>

#include "common/backend/cuda/cuda_error.h"
#include "common/base/check.h"

namespace baton {

CudaCopies::CudaCopies(int device, cudaStream_t operations)
    : device_(device),
      operations_(operations),
      to_host_(device, cudaMemcpyDeviceToHost),
      to_device_(device, cudaMemcpyHostToDevice) {
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

void CudaCopies::ToHost(absl::Span<const DeviceCopy> copies, uint64_t after, Done done) {
  if (after != 0) {
    CheckCuda(cudaSetDevice(device_), "cudaSetDevice");
    const std::lock_guard lock(mutex_);
    BATON_CHECK(after <= last_mark_, "a mark that was given");
    to_host_.WaitFor(marks_[after % kMarks].get());
  }
  to_host_.Add(copies, std::move(done));
}

void CudaCopies::ToDevice(absl::Span<const DeviceCopy> copies, Done done) {
  to_device_.Add(copies, std::move(done));
}

}  // namespace baton
