// How the memory of a device is divided: weights, the scratch of steps, and the KV cache, which
// gets what is left of the process's share. Arithmetic only.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/backend/backend.h"

namespace baton {

// As the flags say it.
struct DeviceShare {
  double utilization = 0.9;            // of the device's memory; in (0, 1]
  int num_kv_blocks = 0;               // 0: by the next
  uint64_t kv_cache_memory_bytes = 0;  // 0: what utilization leaves

  bool kv_is_given() const { return num_kv_blocks > 0 || kv_cache_memory_bytes > 0; }
};

// INVALID_ARGUMENT names --gpu-memory-utilization unless it is in (0, 1].
absl::Status CheckUtilization(double utilization);

// Before `weight_bytes` are loaded. RESOURCE_EXHAUSTED when less is free than the share, or the
// weights leave nothing of it: it says what is needed, what there is, and which flags help. What
// others take is not held against the share, only what is free.
absl::Status CheckWeightsFit(uint64_t weight_bytes, const DeviceShare& share,
                             const DeviceMemoryUse& memory);

// Blocks of `block_bytes` for the KV cache, once weights and scratch are taken: as many as the
// flags give, or as fit into utilization x total less what is taken. RESOURCE_EXHAUSTED as above
// when they are not free, or fewer than two (one to begin with and one of head-room).
absl::StatusOr<int> DeviceKvBlocks(const DeviceShare& share, uint64_t block_bytes,
                                   const DeviceMemoryUse& memory);

// `status`, with the flags that help where it is RESOURCE_EXHAUSTED.
absl::Status WithDeviceMemoryAdvice(const absl::Status& status);

}  // namespace baton
