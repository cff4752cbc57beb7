// Counts the graphs of a test on the way to the runtime (the linker's --wrap).
#include <cuda_runtime.h>

#include <atomic>

#include "test_device.h"

namespace {
std::atomic<int> captured = 0;
std::atomic<int> launched = 0;
}  // namespace

extern "C" {
cudaError_t __real_cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t __real_cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);

cudaError_t __wrap_cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  ++captured;
  return __real_cudaStreamEndCapture(stream, graph);
}
cudaError_t __wrap_cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  ++launched;
  return __real_cudaGraphLaunch(graph, stream);
}
}

namespace baton::cuda_shim {
int GraphsCaptured() { return captured; }
int GraphLaunches() { return launched; }
}  // namespace baton::cuda_shim
