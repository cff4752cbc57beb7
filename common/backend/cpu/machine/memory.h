// The CPU backend's memory: zeroed, in huge pages where the system has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

#include "common/backend/backend.h"

namespace baton {

// Reading weights from huge pages is a third faster: a decode step touches every page of them once.
// A huge page (2 MiB) is larger than most matrices of a small model, so buffers lie side by side in
// slabs; large buffers have a mapping of their own. Memory becomes resident when it is first
// touched, 2 MiB at a time, and a freed buffer's memory goes back to the system. The unused rest of
// a slab is address space only.
//
// Thread rule: Allocate from one thread at a time. Buffers must not outlive this object.
class CpuMemory {
 public:
  CpuMemory() = default;
  ~CpuMemory();
  CpuMemory(const CpuMemory&) = delete;
  CpuMemory& operator=(const CpuMemory&) = delete;

  // Gives zeroed memory, aligned to 64 bytes. RESOURCE_EXHAUSTED names the size.
  absl::StatusOr<BackendBuffer> Allocate(size_t bytes);

 private:
  std::vector<uint8_t*> slabs_;  // buffers are taken from the last slab
  size_t slab_used_ = 0;         // bytes taken from the last slab
};

}  // namespace baton
