// The handling of a failed CUDA call.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace baton {

// The process's exit status after a CUDA error.
inline constexpr int kCudaErrorExitStatus = 70;

// Logs `what` and ends the process with kCudaErrorExitStatus. Nothing can go on: after an error in
// a kernel every later call fails too, and the contents of device memory cannot be trusted. Any
// thread.
[[noreturn]] void EndAfterCudaError(const std::string& what);

// Calls EndAfterCudaError with `call`, the error's name and its text, unless `error` is
// cudaSuccess. Lack of memory is not passed to this function: it becomes a Status (cuda_memory.h).
void CheckCuda(cudaError_t error, const char* call);

}  // namespace baton
