// Copies between a device's memory and pinned memory of the host that go on beside the backend's
// operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/backend/backend.h"

namespace baton {

// A run of bytes on either side.
struct DeviceCopy {
  uint8_t* device = nullptr;
  uint8_t* host = nullptr;  // within what AllocatePinned gave
  size_t bytes = 0;
};

// Thread rule: any thread, but Mark, which is the backend's. Nothing here waits for the device, but
// the destructor.
//
// From the call of ToHost or ToDevice until its `done` is called, what is copied must neither
// change nor be given back, and nobody may read what it is copied to. `done` is called once, on a
// thread of its own, not necessarily in the order of the calls; it must not wait. A copy that fails
// ends the process, as an operation of the backend does.
class DeviceCopies {
 public:
  using Done = std::function<void()>;

  // Waits for all copies and their `done`.
  virtual ~DeviceCopies() = default;

  // Memory of the host that copies reach without its help; not zeroed. RESOURCE_EXHAUSTED when
  // there is not as much. To be given back before this is destroyed.
  virtual absl::StatusOr<BackendBuffer> AllocatePinned(size_t bytes) = 0;

  // Names all operations that the backend was asked for until now; never 0, and ascending.
  virtual uint64_t Mark() = 0;
  // Copies what is in the device's memory once the operations of the mark `after` are done, or at
  // once where it is 0.
  virtual void ToHost(absl::Span<const DeviceCopy> copies, uint64_t after, Done done) = 0;
  // Copies at once. What the backend is asked for after `done` finds the bytes; REQUIRES: nothing
  // that it was asked for before touches the memory.
  virtual void ToDevice(absl::Span<const DeviceCopy> copies, Done done) = 0;
};

}  // namespace baton
