#include "common/backend/cuda/copy_queue.h"

#include <climits>
#include <optional>
#include <utility>

#include "common/backend/cuda/cuda_error.h"
#include "common/base/check.h"

namespace baton {
namespace {

constexpr size_t kCapacity = size_t{1} << 20;

// Whoever waits for it sleeps.
CudaEvent MakeBlockingEvent() {
  cudaEvent_t event = nullptr;
  CheckCuda(cudaEventCreateWithFlags(&event, cudaEventBlockingSync | cudaEventDisableTiming),
            "cudaEventCreateWithFlags");
  return CudaEvent(event);
}

// From the one to the other, where a pitch can say so; else 0.
size_t Distance(const uint8_t* from, const uint8_t* to, size_t bytes) {
  const auto distance = reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from);
  return distance >= bytes && distance <= INT_MAX ? distance : 0;
}

}  // namespace

CopyQueue::CopyQueue(int device, cudaMemcpyKind direction)
    : device_(device),
      direction_(direction),
      stream_(MakeCudaStream()),
      pending_(kCapacity),
      thread_([this] { Run(); }) {}

CopyQueue::~CopyQueue() {
  pending_.Close();
  thread_.join();
}

void CopyQueue::WaitFor(cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  CheckCuda(cudaStreamWaitEvent(stream_.get(), event, 0), "cudaStreamWaitEvent");
}

CudaEvent CopyQueue::TakeEvent() {
  if (events_.empty()) return MakeBlockingEvent();
  CudaEvent event = std::move(events_.back());
  events_.pop_back();
  return event;
}

void CopyQueue::Add(absl::Span<const DeviceCopy> copies, DeviceCopies::Done done) {
  const std::lock_guard lock(mutex_);
  CheckCuda(cudaSetDevice(device_), "cudaSetDevice");
  while (!copies.empty()) copies.remove_prefix(CopyFirst(copies));
  Pending pending{TakeEvent(), std::move(done)};
  CheckCuda(cudaEventRecord(pending.copied.get(), stream_.get()), "cudaEventRecord");
  BATON_CHECK(pending_.TryPush(std::move(pending)), "no more copies than there is memory for");
}

// A call costs as much as 64 KiB of copying; K and V of a block are one.
size_t CopyQueue::CopyFirst(absl::Span<const DeviceCopy> copies) {
  const DeviceCopy& first = copies.front();
  size_t device_pitch = first.bytes;
  size_t host_pitch = first.bytes;
  size_t count = 1;
  for (; count < copies.size() && copies[count].bytes == first.bytes; ++count) {
    const DeviceCopy& last = copies[count - 1];
    const size_t there = Distance(last.device, copies[count].device, first.bytes);
    const size_t here = Distance(last.host, copies[count].host, first.bytes);
    if (there == 0 || here == 0) break;
    if (count > 1 && (there != device_pitch || here != host_pitch)) break;
    device_pitch = there;
    host_pitch = here;
  }
  const bool to_host = direction_ == cudaMemcpyDeviceToHost;
  CheckCuda(cudaMemcpy2DAsync(to_host ? first.host : first.device,
                              to_host ? host_pitch : device_pitch,
                              to_host ? first.device : first.host,
                              to_host ? device_pitch : host_pitch, first.bytes, count, direction_,
                              stream_.get()),
            "cudaMemcpy2DAsync");
  return count;
}

void CopyQueue::Run() {
  CheckCuda(cudaSetDevice(device_), "cudaSetDevice");
  while (std::optional<Pending> pending = pending_.Pop(absl::InfiniteDuration())) {
    CheckCuda(cudaEventSynchronize(pending->copied.get()), "cudaEventSynchronize");
    pending->done();
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(pending->copied));
  }
}

}  // namespace baton
