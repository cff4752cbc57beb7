// Whether this build's kernels run on a device.
#pragma once

#include <cuda_runtime.h>

namespace baton {

// Of the device that is current: cudaSuccess, or why its kernels cannot be loaded
// (cudaErrorNoKernelImageForDevice where the build has no code for it).
cudaError_t LoadDeviceCode();

}  // namespace baton
