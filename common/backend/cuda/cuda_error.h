// What becomes of a CUDA call that failed.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace baton {

// The process's exit status after a CUDA error.
inline constexpr int kCudaErrorExitStatus = 70;

// Logs `what` and ends the process with kCudaErrorExitStatus. There is nothing to go on with: after
// an error in a kernel every later call fails too, and what the device's memory holds cannot be
// trusted. Any thread.
[[noreturn]] void EndAfterCudaError(const std::string& what);

// Does so unless `error` is cudaSuccess, with `call`, the error's name and its text. Lack of memory
// is no matter for it, but a Status (cuda_memory.h).
void CheckCuda(cudaError_t error, const char* call);

}  // namespace baton
