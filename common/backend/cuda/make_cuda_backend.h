// Makes the CUDA backend. A build without CUDA links no_cuda/ instead.
#pragma once

#include <memory>

#include "absl/status/statusor.h"

#include "common/backend/backend.h"

namespace baton {

// True where the build has CUDA and the machine has a GPU of a kind that the build supports.
bool CudaAvailable();

// `deterministic`: see CudaBackendOptions. UNIMPLEMENTED where this build has no CUDA.
// INVALID_ARGUMENT where the machine has no driver, no GPU, no GPU of that number, or one that this
// build has no code for; the message says what was found and the remedy. Leaves the device current
// on the calling thread.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(int device, bool deterministic);

}  // namespace baton
