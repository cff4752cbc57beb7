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
// slabs; large ones have a mapping of their own. Nothing is resident before it is first touched, by
// 2 MiB, and what a buffer covered goes back to the system when it is freed. What a slab has left
// is address space only.
//
// Thread rule: Allocate from one thread at a time. Buffers must not outlive it.
class CpuMemory {
 public:
  CpuMemory() = default;
  ~CpuMemory();
  CpuMemory(const CpuMemory&) = delete;
  CpuMemory& operator=(const CpuMemory&) = delete;

  // Zeroed, aligned to 64 bytes. RESOURCE_EXHAUSTED names the size.
  absl::StatusOr<BackendBuffer> Allocate(size_t bytes);

 private:
  std::vector<uint8_t*> slabs_;  // the last one is being handed out
  size_t slab_used_ = 0;         // bytes of the last one
};

}  // namespace baton
