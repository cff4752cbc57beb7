// Makes the CUDA backend. A build without CUDA links no_cuda/ instead.
#pragma once

#include <memory>

#include "absl/status/statusor.h"

#include "common/backend/backend.h"
#include "common/backend/cpu/machine/thread_pool.h"

namespace baton {

// True if the build has CUDA and the machine has a GPU of a kind that the build supports.
bool CudaAvailable();

struct MakeCudaOptions {
  int device = 0;
  bool deterministic = false;     // see CudaBackendOptions
  PoolThreads load_threads = {};  // see CudaBackendOptions
};

// UNIMPLEMENTED if this build has no CUDA.
// INVALID_ARGUMENT if the machine has no driver, no GPU, no GPU of that number, or one that this
// build has no code for; the message says what was found and the remedy. Leaves the device current
// on the calling thread.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const MakeCudaOptions& options);

}  // namespace baton
