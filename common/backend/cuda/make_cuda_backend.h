// The door to the CUDA backend. A build without CUDA links no_cuda/ behind it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"

#include "common/backend/backend.h"

namespace baton {

// True where the build has CUDA and the machine a device.
bool CudaAvailable();

// UNIMPLEMENTED where this build has no CUDA; INVALID_ARGUMENT where the machine has no such
// device.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(int device);

}  // namespace baton
