// Whether a device can run this build's kernels.
#pragma once

#include <cuda_runtime.h>

namespace baton {

// Returns cudaSuccess, or why the current device cannot load this build's kernels
// (cudaErrorNoKernelImageForDevice if the build has no code for it).
cudaError_t LoadDeviceCode();

}  // namespace baton
