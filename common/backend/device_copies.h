// Copies between a device's memory and pinned memory of the host, which go on beside the backend's
// operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/backend/backend.h"

namespace baton {

// One range of bytes on the device and one of as many bytes on the host.
struct DeviceCopy {
  uint8_t* device = nullptr;
  uint8_t* host = nullptr;  // within memory from AllocatePinned
  size_t bytes = 0;
};

// Thread rule: any thread may call anything here except Mark, which belongs to the backend's
// thread. Nothing here waits for the device except the destructor.
//
// From the call of ToHost or ToDevice until its `done` is called, the source must neither change
// nor be given back, and no thread may read the target. `done` is called once, on a thread that
// these copies own, not necessarily in the order of the calls; it must not wait. A copy that fails
// ends the process, as a failed operation of the backend does.
class DeviceCopies {
 public:
  using Done = std::function<void()>;

  // Waits for all copies and their `done`.
  virtual ~DeviceCopies() = default;

  // Host memory that the device copies from and to by itself; not zeroed. It must be given back
  // before this object is destroyed. RESOURCE_EXHAUSTED when there is not as much.
  virtual absl::StatusOr<BackendBuffer> AllocatePinned(size_t bytes) = 0;

  // Names all operations that the backend was asked for until now. Marks ascend and are never 0.
  virtual uint64_t Mark() = 0;
  // Copies from the device once the operations of the mark `after` are done, or at once if
  // `after` is 0.
  virtual void ToHost(absl::Span<const DeviceCopy> copies, uint64_t after, Done done) = 0;
  // Copies to the device at once. Operations asked for after `done` find the bytes there. REQUIRES:
  // no operation asked for before touches the memory.
  virtual void ToDevice(absl::Span<const DeviceCopy> copies, Done done) = 0;
};

}  // namespace baton
