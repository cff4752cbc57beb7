// The door to the CUDA backend. A build without CUDA links no_cuda/ behind it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"

#include "common/backend/backend.h"

namespace baton {

// True where the build has CUDA and the machine a GPU that it is for.
bool CudaAvailable();

// `deterministic` as in CudaBackend. UNIMPLEMENTED where this build has no CUDA. INVALID_ARGUMENT
// where the machine has no driver, no GPU, none of that number, or one that this build has no code
// for: it says what was found and the remedy. Leaves the device current on the calling thread.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(int device, bool deterministic);

}  // namespace baton
