// Divides the memory of a device between weights, the scratch of steps, and the KV cache, which
// gets what is left of the process's share. Pure functions: they only calculate.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/backend/backend.h"

namespace baton {

// Blocks of one KV cache, however much memory there is.
inline constexpr int kMaxKvBlocks = 1 << 24;

// How much memory a worker takes, as the flags give it.
struct MemoryOptions {
  double gpu_utilization = 0.9;        // fraction of a GPU's memory; in (0, 1]
  int num_kv_blocks = 0;               // blocks of the KV cache; 0: kv_cache_memory_bytes decides
  uint64_t kv_cache_memory_bytes = 0;  // 0: a GPU's KV cache gets what gpu_utilization leaves

  bool kv_is_given() const { return num_kv_blocks > 0 || kv_cache_memory_bytes > 0; }
};

// INVALID_ARGUMENT names the flag.
absl::Status CheckMemoryOptions(const MemoryOptions& options);

// Checks whether `weight_bytes` of weights fit, before they are loaded. RESOURCE_EXHAUSTED if less
// memory is free than the share, or if the weights leave nothing of the share. The error says what
// is needed, what there is, and which flags help. Memory of other processes counts as not free.
absl::Status CheckWeightsFit(uint64_t weight_bytes, const MemoryOptions& options,
                             const DeviceMemoryUse& memory);

// The number of blocks of `block_bytes` for the KV cache, once weights and scratch are taken: as
// many as the flags give, or as fit into utilization x total - taken. RESOURCE_EXHAUSTED when that
// much is not free, or when it is fewer than two blocks (one to begin with and one of head-room).
// The error says what is needed, what there is, and which flags help.
absl::StatusOr<int> DeviceKvBlocks(const MemoryOptions& options, uint64_t block_bytes,
                                   const DeviceMemoryUse& memory);

// Returns `status`; to RESOURCE_EXHAUSTED it adds which flags help.
absl::Status WithDeviceMemoryAdvice(const absl::Status& status);

}  // namespace baton
