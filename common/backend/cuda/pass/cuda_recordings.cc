#include "common/backend/cuda/pass/cuda_recordings.h"

#include <algorithm>
#include <utility>

#include "common/backend/cuda/device/cuda_error.h"
#include "common/base/check.h"

namespace baton {

void CudaRecordings::GraphDeleter::operator()(cudaGraphExec_t graph) const {
  const cudaError_t error = cudaGraphExecDestroy(graph);
  if (error != cudaErrorCudartUnloading) CheckCuda(error, "cudaGraphExecDestroy");
}

std::vector<RecordedKind> CudaRecordings::Kinds(int most_sequences, int most_tokens,
                                                int64_t all_tokens) const {
  std::vector<RecordedKind> kinds = KindsOfShapes(most_sequences, most_tokens, all_tokens);
  kinds.resize(std::min(kinds.size(), kMaxShapes));
  return kinds;
}

bool CudaRecordings::Run(absl::FunctionRef<void()> operations) {
  if (known_moves_ != moves_.count) graphs_ = RecentCache<PassShape, Graph>(kMaxShapes);
  known_moves_ = moves_.count;
  if (shape_.parts > 1) {
    operations();
    return true;
  }
  Graph* graph = graphs_.Find(shape_);
  if (graph == nullptr) {
    operations();
    // This pass may just have moved its own memory. Then the next pass of the shape comes here too.
    graphs_.Insert(shape_, nullptr);
    return true;
  }
  const bool captures = *graph == nullptr;
  if (captures) *graph = Capture(operations);
  CheckCuda(cudaGraphLaunch(graph->get(), stream_), "cudaGraphLaunch");
  return captures;
}

CudaRecordings::Graph CudaRecordings::Capture(absl::FunctionRef<void()> operations) const {
  CheckCuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
            "cudaStreamBeginCapture");
  operations();
  cudaGraph_t captured = nullptr;
  CheckCuda(cudaStreamEndCapture(stream_, &captured), "cudaStreamEndCapture");
  BATON_CHECK(moves_.count == known_moves_, "memory that stays while a pass is captured");
  cudaGraphExec_t graph = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&graph, captured, 0);
  if (error == cudaErrorMemoryAllocation) {
    EndAfterCudaError(
        "no device memory is left to record a step; lower --gpu-memory-utilization or "
        "--max-num-seqs");
  }
  CheckCuda(error, "cudaGraphInstantiate");
  CheckCuda(cudaGraphDestroy(captured), "cudaGraphDestroy");
  return Graph(graph);
}

}  // namespace baton
