#include "common/backend/cuda/pass/upload_ring.h"

#include <algorithm>
#include <utility>

#include "common/backend/cuda/device/cuda_error.h"
#include "common/base/check.h"

namespace baton {
namespace {

// The least bytes of a slot, so that most slots never grow.
constexpr size_t kLeastBytes = size_t{16} << 10;

}  // namespace

UploadRing::UploadRing(cudaStream_t stream) : stream_(stream) {
  for (Slot& slot : slots_) slot.copied = MakeCudaEvent();
}

UploadRing::~UploadRing() { CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

uint8_t* UploadRing::Next(size_t bytes) {
  current_ = (current_ + 1) % kSlots;
  Slot& slot = slots_[current_];
  if (slot.in_flight) CheckCuda(cudaEventSynchronize(slot.copied.get()), "cudaEventSynchronize");
  slot.in_flight = false;
  if (bytes > slot.memory.size_bytes()) {
    absl::StatusOr<BackendBuffer> memory = AllocatePinnedMemory(std::max(bytes, kLeastBytes));
    if (!memory.ok()) EndAfterCudaError(memory.status().ToString());
    slot.memory = *std::move(memory);
  }
  return slot.memory.data();
}

void UploadRing::Send(absl::Span<const Part> parts) {
  Slot& slot = slots_[current_];
  BATON_CHECK(!slot.in_flight, "one Send for each Next");
  for (const Part& part : parts) {
    BATON_CHECK(part.offset + part.bytes <= slot.memory.size_bytes(),
                "a part must lie in the memory that Next returned");
    CheckCuda(cudaMemcpyAsync(part.device, slot.memory.data() + part.offset, part.bytes,
                              cudaMemcpyHostToDevice, stream_),
              "cudaMemcpyAsync");
  }
  CheckCuda(cudaEventRecord(slot.copied.get(), stream_), "cudaEventRecord");
  slot.in_flight = true;
}

}  // namespace baton
