#include "common/backend/cuda/device/copy_queue.h"

#include <climits>
#include <utility>

#include "common/backend/cuda/device/cuda_error.h"

namespace baton {
namespace {

// Copies given to the stream at a time: the copy engine has work while the thread wakes up.
constexpr size_t kAhead = 4;

// An event whose waiting thread sleeps instead of spinning.
CudaEvent MakeBlockingEvent() {
  cudaEvent_t event = nullptr;
  CheckCuda(cudaEventCreateWithFlags(&event, cudaEventBlockingSync | cudaEventDisableTiming),
            "cudaEventCreateWithFlags");
  return CudaEvent(event);
}

// The distance in bytes between two copies that a pitch can express; otherwise 0.
size_t Distance(const uint8_t* from, const uint8_t* to, size_t bytes) {
  const auto distance = reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from);
  return distance >= bytes && distance <= INT_MAX ? distance : 0;
}

}  // namespace

CopyQueue::CopyQueue(int device, cudaMemcpyKind direction, WaitFor wait_for)
    : device_(device),
      direction_(direction),
      wait_for_(std::move(wait_for)),
      stream_(MakeCudaStream()),
      thread_([this] { Run(); }) {}

CopyQueue::~CopyQueue() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

CudaEvent CopyQueue::TakeEvent() {
  if (events_.empty()) return MakeBlockingEvent();
  CudaEvent event = std::move(events_.back());
  events_.pop_back();
  return event;
}

void CopyQueue::Add(absl::Span<const DeviceCopy> copies, uint64_t after, DeviceCopies::Done done) {
  CheckCuda(cudaSetDevice(device_), "cudaSetDevice");
  const std::lock_guard lock(mutex_);
  waiting_.emplace(after, Waiting{{copies.begin(), copies.end()}, std::move(done)});
  BeginNext();
}

void CopyQueue::BeginNext() {
  while (begun_.size() < kAhead && !waiting_.empty()) {
    const auto next = waiting_.begin();
    if (next->first != 0) wait_for_(stream_.get(), next->first);
    absl::Span<const DeviceCopy> copies = next->second.copies;
    while (!copies.empty()) copies.remove_prefix(CopyFirst(copies));
    begun_.push_back({TakeEvent(), std::move(next->second.done)});
    CheckCuda(cudaEventRecord(begun_.back().copied.get(), stream_.get()), "cudaEventRecord");
    waiting_.erase(next);
    changed_.notify_all();
  }
}

// A call costs as much time as copying 64 KiB, so K and V of a block go in one call.
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
  CheckCuda(
      cudaMemcpy2DAsync(to_host ? first.host : first.device, to_host ? host_pitch : device_pitch,
                        to_host ? first.device : first.host, to_host ? device_pitch : host_pitch,
                        first.bytes, count, direction_, stream_.get()),
      "cudaMemcpy2DAsync");
  return count;
}

void CopyQueue::Run() {
  CheckCuda(cudaSetDevice(device_), "cudaSetDevice");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closed_ || !begun_.empty(); });
    if (begun_.empty()) return;
    const cudaEvent_t copied = begun_.front().copied.get();
    lock.unlock();
    CheckCuda(cudaEventSynchronize(copied), "cudaEventSynchronize");
    lock.lock();
    const DeviceCopies::Done done = std::move(begun_.front().done);
    events_.push_back(std::move(begun_.front().copied));
    begun_.pop_front();
    BeginNext();
    lock.unlock();
    done();
    lock.lock();
  }
}

}  // namespace baton
